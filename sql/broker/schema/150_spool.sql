-- What the spools of ingest have brought here, and which queues have none.

-- Of each spool and partition the sequence of the last record that is settled: a record up to it is not appended again,
-- however late it comes once more. Written with the append, under the partition's lock; removed when the spool is empty.
CREATE TABLE IF NOT EXISTS queen.spool_marks (
    spool_id      uuid NOT NULL,
    partition_id  bigint NOT NULL,
    sequence      bigint NOT NULL,
    CONSTRAINT spool_marks_spool_id_partition_id_pkey PRIMARY KEY (spool_id, partition_id)
) WITH (fillfactor = 70);

-- false: a push that the database cannot take fails. Rows that exist take the default without being rewritten.
--
-- The column is looked for first: adding one locks the table against everybody, even when it is there already.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
                   WHERE a.attrelid = 'queen.queues'::regclass AND NOT a.attisdropped AND a.attname = 'spool_enabled') THEN
        ALTER TABLE queen.queues ADD COLUMN IF NOT EXISTS spool_enabled boolean NOT NULL DEFAULT true;
    END IF;
END
$$;

-- The few queues that ingest has to know without the database.
CREATE INDEX CONCURRENTLY IF NOT EXISTS queues_live_flagged ON queen.queues (id)
    WHERE deleted_at IS NULL AND (encryption_enabled OR NOT spool_enabled);

-- Whether a queue of a name was deleted after something had been spooled for it.
CREATE INDEX CONCURRENTLY IF NOT EXISTS queues_tenant_name_deleted_at_idx ON queen.queues (tenant, name, deleted_at)
    WHERE deleted_at IS NOT NULL;
