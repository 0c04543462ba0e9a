-- Where a group stands in a partition, and the lease it holds there. A missing row stands for the group's seed. At most
-- one live lease per row by construction: expiry is a predicate of whoever claims, never a job.
--
-- Keyed by group first, so that all cursors of a group lie together for candidate pages. No index holds what a claim or
-- an ack changes; half of each page is left free for their heap-only updates.
CREATE TABLE IF NOT EXISTS queen.cursors (
    subscription_id     bigint NOT NULL,
    partition_id        bigint NOT NULL,
    committed           bigint NOT NULL,            -- last consumed offset, -1 for none
    batch_end           bigint,                     -- last offset of the leased span, NULL without a lease on record
    lease_expires_at    timestamptz,
    head_offset         bigint,                     -- first offset of the last claim: counts its deliveries, and is where a repeated ack is looked for
    retry_count         integer NOT NULL DEFAULT 0, -- explicit failures of the head, charged by acks alone
    attempt             integer NOT NULL DEFAULT 0, -- deliveries of head_offset
    lease_id            uuid,
    completed_lease_id  uuid,                       -- the last lease that an ack ended
    CONSTRAINT cursors_pkey PRIMARY KEY (subscription_id, partition_id),
    CONSTRAINT cursors_lease_check CHECK ((lease_id IS NULL) = (lease_expires_at IS NULL) AND (lease_id IS NULL OR batch_end IS NOT NULL)),
    CONSTRAINT cursors_span_check CHECK (committed >= -1 AND (batch_end IS NULL OR batch_end > committed))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_analyze_scale_factor = 0.2, vacuum_truncate = off);
