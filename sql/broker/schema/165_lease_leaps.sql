-- When a lease was given, and its second end if the database's clock had leapt away then from what the caller took for the
-- time: nobody knows which of the two will prove true. Rows that exist take the defaults without being rewritten.
--
-- The columns are looked for first: adding one locks the table against everybody, even when it is there already.
DO $$
BEGIN
    IF (SELECT count(*) FROM pg_catalog.pg_attribute a WHERE a.attrelid = 'queen.cursors'::regclass AND NOT a.attisdropped
        AND a.attname IN ('leased_at', 'lease_leap_at', 'lease_leap_end')) < 3 THEN
        ALTER TABLE queen.cursors
            -- What the clock showed when the lease was given or last renewed.
            ADD COLUMN IF NOT EXISTS leased_at       timestamptz,
            -- The later of the two times then; NULL when the clock was right. To whom it is earlier, the lease ends at
            -- lease_leap_end, and at lease_expires_at to all others.
            ADD COLUMN IF NOT EXISTS lease_leap_at   timestamptz,
            ADD COLUMN IF NOT EXISTS lease_leap_end  timestamptz;
    END IF;
END
$$;
