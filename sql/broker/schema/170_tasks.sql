-- What has to be done from time to time, whoever is up. One row per task, made by the first process that asks for it; any
-- number of processes ask, one at a time holds the task.
--
-- fence counts the holders. Whatever a holder changes, it changes in a transaction that locks this row first and finds its
-- own number in it (queen.holds_task), so one that was replaced while it slept changes nothing when it wakes.
CREATE TABLE IF NOT EXISTS queen.tasks (
    name              text NOT NULL,
    fence             bigint NOT NULL DEFAULT 0,
    due_at            timestamptz NOT NULL DEFAULT clock_timestamp(), -- the period that is to be worked, or is being worked
    lease_expires_at  timestamptz,                                    -- NULL: nobody holds it
    started_at        timestamptz,                                    -- by the latest holder
    ended_at          timestamptz,                                    -- the latest period that was worked to its end
    position          bigint NOT NULL DEFAULT 0,                      -- where a task that walks goes on
    enabled           boolean NOT NULL DEFAULT true,                  -- false stops it everywhere; set by hand
    holder            text NOT NULL DEFAULT '',                       -- for people: a server id may be used twice
    CONSTRAINT tasks_name_pkey PRIMARY KEY (name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, vacuum_truncate = off);
