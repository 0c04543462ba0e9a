-- A consumer group's identity on one queue. A wildcard or discovery pop registers it (registered_at set): the start it
-- asked for is fixed for ever, and newest_partition_id says which partitions existed then; a partition with a higher id
-- is delivered from its first message. A row with registered_at NULL belongs to a group that only pops by partition.
-- Services remember a subscription by id and uid: after a failover that lost it, its id may be issued again.
CREATE TABLE IF NOT EXISTS queen.subscriptions (
    id                   bigint GENERATED ALWAYS AS IDENTITY,
    queue_id             bigint NOT NULL,
    newest_partition_id  bigint,
    registered_at        timestamptz,
    start_from           timestamptz,
    uid                  uuid NOT NULL DEFAULT gen_random_uuid(),
    start_mode           text,
    group_name           text NOT NULL,
    CONSTRAINT subscriptions_pkey PRIMARY KEY (id),
    CONSTRAINT subscriptions_queue_id_group_name_key UNIQUE (queue_id, group_name),
    CONSTRAINT subscriptions_start_mode_check CHECK (start_mode IN ('all', 'new', 'from')),
    CONSTRAINT subscriptions_start_from_check CHECK ((start_mode = 'from') = (start_from IS NOT NULL))
);
