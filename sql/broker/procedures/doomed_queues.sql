-- doomed_queues finds deleted queues that still have something, the oldest deletions first.
--
-- Callers: the retention store.
-- Answer:  at most p_limit. Those deleted within the last minute are left out: a claim or an append that began before may
--          still be writing.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.doomed_queues(p_limit integer)
RETURNS SETOF bigint
LANGUAGE sql VOLATILE AS $$
    SELECT q.id FROM queen.queues q
    WHERE q.deleted_at IS NOT NULL AND q.reaped_at IS NULL AND q.deleted_at < clock_timestamp() - interval '1 min'
    ORDER BY q.deleted_at LIMIT p_limit
$$;
