-- A transaction that was committed, under the id its caller looks for when the answer got lost or the same request comes
-- again: what was asked for, as a fingerprint, and what is needed to answer it once more. One that was undone leaves none.
CREATE TABLE IF NOT EXISTS queen.transactions (
    id                   uuid NOT NULL,
    tenant               uuid NOT NULL,
    created_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    fingerprint          bytea NOT NULL,
    message_ids          uuid[] NOT NULL,     -- of the messages stored, in the order of the request
    ack_places           integer[] NOT NULL,  -- which acks of the request the next two speak of
    ack_outcomes         smallint[] NOT NULL, -- as ack answers them
    ack_dead             boolean[] NOT NULL,
    partitions           bigint[] NOT NULL,   -- that were appended to, and what to announce of each
    last_offsets         bigint[] NOT NULL,
    freed_subscriptions  bigint[] NOT NULL,   -- cursors whose lease ended
    freed_partitions     bigint[] NOT NULL,
    CONSTRAINT transactions_pkey PRIMARY KEY (id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1);

-- Who removes old rows finds them by age; rows lie in that order, so a summary of pages is enough.
CREATE INDEX IF NOT EXISTS transactions_created_at_idx ON queen.transactions USING brin (created_at);
