-- A segment: many messages of one partition, encoded and compressed once by the service that appended them. Offsets
-- base_offset..end_offset, all present. No secondary index and no foreign key: both would cost every append.
CREATE TABLE IF NOT EXISTS queen.segments (
    partition_id  bigint NOT NULL,
    base_offset   bigint NOT NULL,
    end_offset    bigint NOT NULL,
    created_at    timestamptz NOT NULL,
    tag           bigint NOT NULL,
    raw_bytes     integer NOT NULL,
    codec         smallint NOT NULL,
    payload       bytea NOT NULL,
    CONSTRAINT segments_pkey PRIMARY KEY (partition_id, base_offset),
    -- A thousand messages at most: procedures that look for the segment which holds an offset rely on it.
    CONSTRAINT segments_offsets_check CHECK (end_offset BETWEEN base_offset AND base_offset + 999)
) WITH (toast_tuple_target = 8160, -- a payload that fits into a page stays in the row: one write less (docs/adr/0001)
        autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1,
        toast.autovacuum_vacuum_insert_scale_factor = 0.1);

-- The payload arrives compressed; a second compression by the server would only cost time. The property is
-- looked at first, because setting it locks the table even when nothing changes.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
                   WHERE a.attrelid = 'queen.segments'::regclass AND a.attname = 'payload' AND a.attstorage = 'e') THEN
        ALTER TABLE queen.segments ALTER COLUMN payload SET STORAGE EXTERNAL;
    END IF;
END
$$;
