-- retention_rules is what the options of a queue mean at a time: which commit times are too old. NULL: there is no such rule.
--
-- Callers: cut_logs, stale_queues, remove_hashes.
-- Answer:  one row; none for a queue that is deleted. hashed is a minute older than it could be: an append that is under way
--          has read the clock before.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.retention_rules(p_queue bigint, p_now timestamptz)
RETURNS TABLE (aged timestamptz, completed timestamptz, waited timestamptz, hashed timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN q.retention_enabled AND q.retention_seconds > 0 THEN p_now - q.retention_seconds * interval '1 s' END,
           CASE WHEN q.retention_enabled AND q.completed_retention_seconds > 0 THEN p_now - q.completed_retention_seconds * interval '1 s' END,
           CASE WHEN q.max_wait_seconds > 0 THEN p_now - q.max_wait_seconds * interval '1 s' END,
           p_now - (greatest(q.dedup_window_seconds, q.completed_retention_seconds, 900) + 60) * interval '1 s'
    FROM queen.queues q WHERE q.id = p_queue AND q.deleted_at IS NULL
$$;
