-- A message a group gave up on, with a snapshot of its payload as it was stored: the segment may be gone before
-- somebody looks.
CREATE TABLE IF NOT EXISTS queen.dlq (
    id               uuid NOT NULL,
    queue_id         bigint NOT NULL,
    partition_id     bigint NOT NULL,
    message_offset   bigint NOT NULL,
    failed_at        timestamptz NOT NULL,
    created_at       timestamptz NOT NULL,
    retry_count      integer NOT NULL,
    message_id       uuid NOT NULL,
    group_name       text NOT NULL,
    transaction_id   text NOT NULL,
    error            text NOT NULL,
    payload          bytea NOT NULL,
    CONSTRAINT dlq_pkey PRIMARY KEY (id)
);

-- Listings go newest first within a queue.
CREATE INDEX IF NOT EXISTS dlq_queue_id_failed_at_idx ON queen.dlq (queue_id, failed_at DESC, id);
