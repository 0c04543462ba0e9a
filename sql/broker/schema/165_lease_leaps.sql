-- When a lease ends that was given while the database's clock had leapt away from what its caller took for the time. Nobody
-- knows then which of the two will prove true, so the lease has an end in either time. Rows that exist take the defaults
-- without being rewritten.
--
-- The columns are looked for first: adding one locks the table against everybody, even when it is there already.
DO $$
BEGIN
    IF (SELECT count(*) FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = 'queen.cursors'::regclass AND NOT a.attisdropped AND a.attname IN ('lease_leap_at', 'lease_leap_end')) < 2 THEN
        ALTER TABLE queen.cursors
            -- The later of the two times at which the lease was given; NULL when both were the same. To whom it is earlier, the
            -- lease ends at lease_leap_end, and at lease_expires_at to all others.
            ADD COLUMN IF NOT EXISTS lease_leap_at   timestamptz,
            ADD COLUMN IF NOT EXISTS lease_leap_end  timestamptz;
    END IF;
END
$$;
