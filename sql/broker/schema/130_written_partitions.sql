-- When a partition was last written, in steps of 15 seconds, so that "the partitions of this queue written since then" is
-- a walk over these alone. An index may only hold what most appends do not change: within a step the value stays the same
-- and the append stays a heap-only update. The column is generated, so nobody who appends can forget it.
--
-- The column is looked for first: adding one locks the table against everybody, even when it is there already.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
                   WHERE a.attrelid = 'queen.partitions'::regclass AND NOT a.attisdropped AND a.attname = 'written_at') THEN
        ALTER TABLE queen.partitions
            ADD COLUMN IF NOT EXISTS written_at timestamptz
                GENERATED ALWAYS AS (date_bin(interval '15 s', last_created_at, timestamptz '2000-01-01 00:00:00+00')) STORED;
    END IF;
END
$$;

-- What a group's search for new work walks. The id makes it a position to go on from.
CREATE INDEX CONCURRENTLY IF NOT EXISTS partitions_queue_id_written_at_id_idx ON queen.partitions (queue_id, written_at, id);

-- How often cursors of the group were moved to where no write and no lease leads: a seek, a start that was changed. Whoever
-- moves them so adds one, in the same transaction, and everybody who believes to know where the group has work looks at all
-- of it again. Acks, leases and give-backs do not count.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
                   WHERE a.attrelid = 'queen.subscriptions'::regclass AND NOT a.attisdropped AND a.attname = 'moves') THEN
        ALTER TABLE queen.subscriptions ADD COLUMN IF NOT EXISTS moves bigint NOT NULL DEFAULT 0;
    END IF;
END
$$;
