-- retention_queues is what went of each of a tenant's queues, and which group holds it up.
--
-- Callers: the inspection store.
-- Input:   p_queue NULL is all queues; p_before itself is excluded. At most p_limit queues.
-- Answer:  by name, the queues from which something went or that are held up: by the group because of which the oldest message
--          that could have gone did not, since when, and how many partitions any group holds, counted up to 10 000.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.retention_queues(p_tenant uuid, p_queue text, p_from timestamptz, p_before timestamptz, p_limit integer)
RETURNS TABLE (queue_name text, aged bigint, completed bigint, evicted bigint, unread bigint, partitions bigint,
               held_by text, held_since timestamptz, held_partitions bigint)
LANGUAGE sql STABLE AS $$
    SELECT q.name, coalesce(r.aged, 0), coalesce(r.completed, 0), coalesce(r.evicted, 0), coalesce(r.unread, 0), coalesce(r.partitions, 0),
           g.group_name, g.held_since,
           CASE WHEN g.group_name IS NOT NULL THEN (SELECT count(*) FROM (
               SELECT FROM queen.retained d WHERE d.queue_id = q.id AND d.held_by IS NOT NULL LIMIT 10000) d) ELSE 0 END
    FROM queen.queues q
    LEFT JOIN LATERAL (SELECT sum(h.aged)::bigint AS aged, sum(h.completed)::bigint AS completed, sum(h.evicted)::bigint AS evicted,
                              sum(h.unread)::bigint AS unread, sum(h.partitions)::bigint AS partitions
                       FROM queen.retention_history h WHERE h.queue_id = q.id AND h.minute >= p_from AND h.minute < p_before) r ON true
    LEFT JOIN LATERAL (SELECT s.group_name, d.held_since FROM queen.retained d JOIN queen.subscriptions s ON s.id = d.held_by
                       WHERE d.queue_id = q.id AND d.held_by IS NOT NULL ORDER BY d.held_since LIMIT 1) g ON true
    WHERE q.tenant = p_tenant AND q.deleted_at IS NULL AND (p_queue IS NULL OR q.name = p_queue)
      AND (g.group_name IS NOT NULL OR r.aged + r.completed + r.evicted + r.partitions > 0)
    ORDER BY q.name LIMIT p_limit
$$;
