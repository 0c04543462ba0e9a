-- The hashes of a segment's transaction ids, in offset order. It lives on its own clock (the longest of deduplication
-- window, completed retention and 900 s), because retention may delete the segment earlier and an ack may come later.
CREATE TABLE IF NOT EXISTS queen.dedup (
    partition_id  bigint NOT NULL,
    base_offset   bigint NOT NULL,
    end_offset    bigint NOT NULL,
    created_at    timestamptz NOT NULL,
    tag           bigint NOT NULL,
    hashes        uuid[] NOT NULL,
    CONSTRAINT dedup_pkey PRIMARY KEY (partition_id, base_offset),
    CONSTRAINT dedup_offsets_check CHECK (end_offset = base_offset + cardinality(hashes) - 1)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1);

-- Hashes do not compress; trying would only cost time. The property is
-- looked at first, because setting it locks the table even when nothing changes.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
                   WHERE a.attrelid = 'queen.dedup'::regclass AND a.attname = 'hashes' AND a.attstorage = 'e') THEN
        ALTER TABLE queen.dedup ALTER COLUMN hashes SET STORAGE EXTERNAL;
    END IF;
END
$$;
