-- A queue: one identity per (tenant, name) that is alive. Deletion is a mark that frees the name; a queue created again
-- under it is another row, so nothing of the old one can leak into the new one.
CREATE TABLE IF NOT EXISTS queen.queues (
    id                           bigint GENERATED ALWAYS AS IDENTITY,
    uid                          uuid NOT NULL DEFAULT gen_random_uuid(),
    tenant                       uuid NOT NULL,
    created_at                   timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_at                   timestamptz,
    lease_seconds                integer NOT NULL DEFAULT 60,
    retry_limit                  integer NOT NULL DEFAULT 3,
    delayed_processing_seconds   integer NOT NULL DEFAULT 0,
    window_buffer_seconds        integer NOT NULL DEFAULT 0,
    dedup_window_seconds         integer NOT NULL DEFAULT 3600,
    dead_letter_queue            boolean NOT NULL DEFAULT true,
    dead_letter_after_retries    boolean NOT NULL DEFAULT true,
    encryption_enabled           boolean NOT NULL DEFAULT false,
    name                         text NOT NULL,
    namespace                    text NOT NULL,
    task                         text NOT NULL,
    CONSTRAINT queues_pkey PRIMARY KEY (id)
);

-- The wire's address of a queue, and what ON CONFLICT of provisioning meets.
CREATE UNIQUE INDEX IF NOT EXISTS queues_live_name ON queen.queues (tenant, name) WHERE deleted_at IS NULL;

-- Discovery pops ask by namespace, by task or by both.
CREATE INDEX IF NOT EXISTS queues_live_namespace ON queen.queues (tenant, namespace, task) WHERE deleted_at IS NULL;
CREATE INDEX IF NOT EXISTS queues_live_task ON queen.queues (tenant, task) WHERE deleted_at IS NULL;
