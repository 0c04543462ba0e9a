-- What holds for all processes of the cell. One row per key; a missing row means the default, off.
--
-- value is {"enabled": true or false}. version is the writer's, of whom the one with the higher version came later: a mode
-- can be switched while the database is away, and is written when it is back. 0 is a row that was written by hand.
CREATE TABLE IF NOT EXISTS queen.system_state (
    key         text NOT NULL,
    value       jsonb NOT NULL,
    version     bigint NOT NULL DEFAULT 0,
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT system_state_key_pkey PRIMARY KEY (key)
);
