-- How long the head of a partition rests after a consumer has given it back by a nack. Rows that exist take the defaults
-- without being rewritten.
--
-- The columns are looked for first: adding one locks the table against everybody, even when it is there already.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
                   WHERE a.attrelid = 'queen.queues'::regclass AND NOT a.attisdropped AND a.attname = 'redelivery_delay_seconds') THEN
        ALTER TABLE queen.queues ADD COLUMN IF NOT EXISTS redelivery_delay_seconds integer NOT NULL DEFAULT 0
            CONSTRAINT queues_redelivery_delay_seconds_check CHECK (redelivery_delay_seconds BETWEEN 0 AND 86400);
    END IF;
END
$$;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
                   WHERE a.attrelid = 'queen.cursors'::regclass AND NOT a.attisdropped AND a.attname = 'not_before') THEN
        -- Until when the message after the cursor, and so what is behind it, is not delivered. Nothing indexes it.
        ALTER TABLE queen.cursors ADD COLUMN IF NOT EXISTS not_before timestamptz;
    END IF;
END
$$;
