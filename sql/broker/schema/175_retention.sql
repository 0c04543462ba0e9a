-- What is stored of a partition and since when, for whoever removes what has become old: who asks for the due ones finds these
-- alone, however many partitions there are. A row is made by the append that finds its partition empty, or quiet for long;
-- after that appends pass it by, and only the remover changes it.
--
-- The partitions that have something are entered with the table. Their times are not known; as old as the partition is early
-- enough, and the first look corrects it.
DO $$
BEGIN
    IF to_regclass('queen.retained') IS NULL THEN
        CREATE TABLE queen.retained (
            partition_id    bigint NOT NULL,
            queue_id        bigint NOT NULL,
            segments_since  timestamptz,                    -- look when segments of this time are due, not before; NULL: there are none
            hashes_since    timestamptz,                    -- the same for dedup rows
            held_since      timestamptz,                    -- since when the oldest segment would be gone, but for a group
            held_by         bigint,                         -- that group's subscription
            trash           boolean NOT NULL DEFAULT false, -- segments below log_start are to be deleted
            CONSTRAINT retained_partition_id_pkey PRIMARY KEY (partition_id)
        ) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, vacuum_truncate = off);
        INSERT INTO queen.retained (partition_id, queue_id, segments_since, hashes_since)
        SELECT p.id, p.queue_id, p.created_at, p.created_at FROM queen.partitions p WHERE p.last_offset >= 0;
    END IF;
END
$$;

-- The due ones of a queue, oldest first.
CREATE INDEX IF NOT EXISTS retained_segments_idx ON queen.retained (queue_id, segments_since, partition_id) WHERE segments_since IS NOT NULL;
CREATE INDEX IF NOT EXISTS retained_hashes_idx ON queen.retained (queue_id, hashes_since, partition_id) WHERE hashes_since IS NOT NULL;

-- What a step has left to the next; and who holds up a queue, the longest first.
CREATE INDEX IF NOT EXISTS retained_trash_idx ON queen.retained (queue_id, partition_id) WHERE trash;
CREATE INDEX IF NOT EXISTS retained_held_idx ON queen.retained (queue_id, held_since) WHERE held_by IS NOT NULL;

-- What was removed, by queue and minute. Only the holder of the task writes here.
CREATE TABLE IF NOT EXISTS queen.retention_history (
    queue_id    bigint NOT NULL,
    minute      timestamptz NOT NULL,
    aged        bigint NOT NULL, -- messages, by retentionSeconds
    completed   bigint NOT NULL, -- by completedRetentionSeconds
    evicted     bigint NOT NULL, -- by maxWaitTimeSeconds
    unread      bigint NOT NULL, -- of aged and evicted: a group, or everybody, had still to consume them
    partitions  bigint NOT NULL, -- idle ones
    steps       bigint NOT NULL,
    CONSTRAINT retention_history_queue_id_minute_pkey PRIMARY KEY (queue_id, minute)
) WITH (fillfactor = 70);

-- What is too old goes whatever queue it is of.
CREATE INDEX IF NOT EXISTS retention_history_minute_idx ON queen.retention_history (minute);

-- When all that a deleted queue had is gone. The row itself stays: a spool may still bring messages of the queue.
--
-- The column is looked for first: adding one locks the table against everybody, even when it is there already.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
                   WHERE a.attrelid = 'queen.queues'::regclass AND NOT a.attisdropped AND a.attname = 'reaped_at') THEN
        ALTER TABLE queen.queues ADD COLUMN IF NOT EXISTS reaped_at timestamptz;
    END IF;
END
$$;

-- Deleted queues that still have something, and those whose mark has become old.
CREATE INDEX CONCURRENTLY IF NOT EXISTS queues_doomed_idx ON queen.queues (deleted_at) WHERE deleted_at IS NOT NULL AND reaped_at IS NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS queues_reaped_idx ON queen.queues (deleted_at) WHERE reaped_at IS NOT NULL;
