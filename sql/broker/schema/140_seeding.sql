-- How far the registration of a group has come. A group that does not begin at the start of the log needs a cursor in each
-- partition that its queue has at first contact, and there may be a million of these: they are written page by page, by
-- ascending partition (queen.seed_page). Until the last is there nobody takes anything for the group.
--
-- The columns are looked for first: adding one locks the table against everybody, even when it is there already.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
                   WHERE a.attrelid = 'queen.subscriptions'::regclass AND NOT a.attisdropped AND a.attname = 'seeding_after') THEN
        ALTER TABLE queen.subscriptions
            ADD COLUMN IF NOT EXISTS seeding_after bigint,     -- up to this partition the cursors are there; NULL: all are
            ADD COLUMN IF NOT EXISTS seeding_from timestamptz, -- the time to start at, NULL for the end; start_from may be changed meanwhile
            ADD COLUMN IF NOT EXISTS seeded bigint,            -- partitions that are done
            ADD COLUMN IF NOT EXISTS seeding_of bigint,        -- of how many, once somebody has counted
            ADD CONSTRAINT subscriptions_seeding_check CHECK ((seeding_after IS NULL) = (seeded IS NULL)
                AND (seeding_after IS NOT NULL OR seeding_from IS NULL AND seeding_of IS NULL));
    END IF;
END
$$;
