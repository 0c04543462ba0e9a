-- The options of a queue that arrived after its table. Their defaults are what a queue gets that a push or a pop creates;
-- existing rows take them without being rewritten. Most are only kept here, and enforced by whoever reads them.
--
-- The columns are looked for first: adding one locks the table against everybody, even when it is there already.
DO $$
BEGIN
    IF (SELECT count(*) FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = 'queen.queues'::regclass AND NOT a.attisdropped AND a.attname IN (
            'priority', 'retry_delay_ms', 'max_size', 'ttl_seconds', 'min_pop_wait_ms', 'retention_seconds',
            'completed_retention_seconds', 'max_wait_seconds', 'delivery_limit', 'retention_sink_hold_max_seconds',
            'retention_enabled', 'retention_sink_hold')) < 12 THEN
        ALTER TABLE queen.queues
            ADD COLUMN IF NOT EXISTS priority                         integer NOT NULL DEFAULT 0,
            ADD COLUMN IF NOT EXISTS retry_delay_ms                   integer NOT NULL DEFAULT 1000,
            ADD COLUMN IF NOT EXISTS max_size                         integer NOT NULL DEFAULT 0,
            ADD COLUMN IF NOT EXISTS ttl_seconds                      integer NOT NULL DEFAULT 3600,
            ADD COLUMN IF NOT EXISTS min_pop_wait_ms                  integer NOT NULL DEFAULT 0
                CONSTRAINT queues_min_pop_wait_ms_check CHECK (min_pop_wait_ms BETWEEN 0 AND 60000),
            ADD COLUMN IF NOT EXISTS retention_seconds                integer NOT NULL DEFAULT 0,
            ADD COLUMN IF NOT EXISTS completed_retention_seconds      integer NOT NULL DEFAULT 0,
            ADD COLUMN IF NOT EXISTS max_wait_seconds                 integer NOT NULL DEFAULT 0,
            -- 0 is off. A first delivery may share its batch with others, so no message can be blamed for it alone.
            ADD COLUMN IF NOT EXISTS delivery_limit                   integer NOT NULL DEFAULT 0
                CONSTRAINT queues_delivery_limit_check CHECK (delivery_limit = 0 OR delivery_limit >= 2),
            ADD COLUMN IF NOT EXISTS retention_sink_hold_max_seconds  integer NOT NULL DEFAULT 604800,
            ADD COLUMN IF NOT EXISTS retention_enabled                boolean NOT NULL DEFAULT false,
            ADD COLUMN IF NOT EXISTS retention_sink_hold              text NOT NULL DEFAULT '';
    END IF;
END
$$;
