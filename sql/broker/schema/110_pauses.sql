-- Since when deliveries are stopped: of a queue to everybody, or to one group. NULL while they are not.
--
-- The columns are looked for first: adding one locks the table against everybody, even when it is there already.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
                   WHERE a.attrelid = 'queen.queues'::regclass AND NOT a.attisdropped AND a.attname = 'paused_at') THEN
        ALTER TABLE queen.queues ADD COLUMN IF NOT EXISTS paused_at timestamptz;
    END IF;
END
$$;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
                   WHERE a.attrelid = 'queen.subscriptions'::regclass AND NOT a.attisdropped AND a.attname = 'paused_at') THEN
        ALTER TABLE queen.subscriptions ADD COLUMN IF NOT EXISTS paused_at timestamptz;
    END IF;
END
$$;
