-- retention_series is what went of a tenant's queues in each span of time.
--
-- Callers: the inspection store.
-- Input:   p_queue NULL is all queues; p_before itself is excluded.
-- Answer:  a row for each span in which anything went, in order. A deleted queue is not told of.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.retention_series(p_tenant uuid, p_queue text, p_from timestamptz, p_before timestamptz, p_minutes integer)
RETURNS TABLE (bucket timestamptz, aged bigint, completed bigint, evicted bigint, unread bigint, steps bigint)
LANGUAGE sql STABLE AS $$
    SELECT date_bin(p_minutes * interval '1 min', h.minute, timestamptz '2000-01-01 00:00:00+00'), sum(h.aged)::bigint, sum(h.completed)::bigint,
           sum(h.evicted)::bigint, sum(h.unread)::bigint, sum(h.steps)::bigint
    FROM queen.queues q JOIN queen.retention_history h ON h.queue_id = q.id AND h.minute >= p_from AND h.minute < p_before
    WHERE q.tenant = p_tenant AND q.deleted_at IS NULL AND (p_queue IS NULL OR q.name = p_queue) AND h.aged + h.completed + h.evicted > 0
    GROUP BY 1 ORDER BY 1
$$;
