-- A partition: the allocator of its offsets. Its row lock orders every append. Wide columns come last so that the part
-- each push rewrites stays at the front of the row.
--
-- No index holds a column that an append changes (last_offset, last_created_at, last_tag), so appends stay heap-only
-- updates; fillfactor leaves them room. Truncation by vacuum takes an exclusive lock and would stop all traffic.
CREATE TABLE IF NOT EXISTS queen.partitions (
    id               bigint GENERATED ALWAYS AS IDENTITY,
    queue_id         bigint NOT NULL,
    last_offset      bigint NOT NULL DEFAULT -1,
    log_start        bigint NOT NULL DEFAULT 0,
    last_tag         bigint,
    last_created_at  timestamptz,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    uid              uuid NOT NULL DEFAULT gen_random_uuid(),
    name             text NOT NULL,
    CONSTRAINT partitions_pkey PRIMARY KEY (id),
    CONSTRAINT partitions_uid_key UNIQUE (uid),
    CONSTRAINT partitions_queue_id_name_key UNIQUE (queue_id, name),
    CONSTRAINT partitions_offsets_check CHECK (last_offset >= -1 AND log_start BETWEEN 0 AND last_offset + 1)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_analyze_scale_factor = 0.2, vacuum_truncate = off);

-- Candidate pages walk a queue's partitions by id.
CREATE INDEX IF NOT EXISTS partitions_queue_id_id_idx ON queen.partitions (queue_id, id);
