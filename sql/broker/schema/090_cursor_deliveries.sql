-- What a queue's delivery limit is counted by, beside the attempt of the head. Cursors that exist take the defaults without
-- being rewritten.
--
-- The columns are looked for first: adding one locks the table against everybody, even when it is there already.
DO $$
BEGIN
    IF (SELECT count(*) FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = 'queen.cursors'::regclass AND NOT a.attisdropped AND a.attname IN ('delivered_end', 'alone')) < 2 THEN
        ALTER TABLE queen.cursors
            -- The furthest offset of a span whose delivery has ended, by expiry or by an ack: what lies up to here has been
            -- delivered before. A span under a lease counts from the lease's end on, so a give-back leaves no trace.
            ADD COLUMN IF NOT EXISTS delivered_end  bigint,
            -- How many of the head's latest deliveries, in a row, had no other message in the whole pop.
            ADD COLUMN IF NOT EXISTS alone          integer NOT NULL DEFAULT 0;
    END IF;
END
$$;
