-- queue_options is the row of a queue.
--
-- Callers: the admin store.
-- Answer:  no row when the queue does not exist or was deleted.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.queue_options(p_queue bigint)
RETURNS SETOF queen.queues
LANGUAGE sql STABLE AS $$
    SELECT q.* FROM queen.queues q WHERE q.id = p_queue AND q.deleted_at IS NULL
$$;
