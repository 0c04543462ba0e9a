-- candidates is a page of the partitions where a group may find work: something lies past its cursor and no lease is
-- live. Only claim decides; delays and windows are not looked at here.
--
-- Callers: the group store.
-- Input:   p_after is the last partition of the page before, 0 for the first page; p_clock_cap as in claim.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.candidates(p_subscription bigint, p_after bigint, p_limit integer, p_clock_cap timestamptz)
RETURNS TABLE (partition_id bigint)
LANGUAGE sql STABLE AS $$
    SELECT p.id
    FROM queen.subscriptions s
    JOIN queen.queues q ON q.id = s.queue_id AND q.deleted_at IS NULL
    JOIN queen.partitions p ON p.queue_id = s.queue_id
    LEFT JOIN queen.cursors c ON c.subscription_id = s.id AND c.partition_id = p.id
    WHERE s.id = p_subscription AND p.id > p_after
      AND p.last_offset > coalesce(c.committed, -1)
      AND (c.lease_expires_at IS NULL OR c.lease_expires_at <= least(clock_timestamp(), p_clock_cap))
    ORDER BY p.id
    LIMIT p_limit
$$;
