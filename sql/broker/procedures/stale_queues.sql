-- stale_queues finds queues where something is to be removed by their rules, among the next p_limit of all.
--
-- Callers: the retention store, page after page.
-- Input:   p_after is the last queue of the page before, 0 for the first.
-- Answer:  one row: the queues, and where the next page begins, NULL when there is none.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.stale_queues(p_after bigint, p_limit integer)
RETURNS TABLE (queues bigint[], next_after bigint)
LANGUAGE sql STABLE AS $$
    WITH page AS MATERIALIZED (
        SELECT q.id FROM queen.queues q WHERE q.id > p_after AND q.deleted_at IS NULL ORDER BY q.id LIMIT p_limit
    )
    SELECT (SELECT array_agg(p.id ORDER BY p.id) FROM page p CROSS JOIN LATERAL queen.retention_rules(p.id, clock_timestamp()) r
            WHERE EXISTS (SELECT FROM queen.retained d WHERE d.queue_id = p.id AND d.segments_since < greatest(r.aged, r.completed, r.waited) LIMIT 1)
               OR EXISTS (SELECT FROM queen.retained d WHERE d.queue_id = p.id AND d.hashes_since < r.hashed LIMIT 1)
               OR EXISTS (SELECT FROM queen.retained d WHERE d.queue_id = p.id AND d.trash LIMIT 1)),
           (SELECT CASE WHEN count(*) = p_limit THEN max(p.id) END FROM page p)
$$;
