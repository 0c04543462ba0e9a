-- candidates is a page of the partitions where a group may find work: something lies past its cursor, no lease is live and
-- no nack has the head wait. Only claim decides; delays and windows are not looked at here. While the queue or the group is
-- paused there are none.
--
-- Callers: the group store.
-- Input:   p_after is the last partition of the page before, 0 for the first page; p_clock_cap as in claim.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.candidates(
    p_subscription bigint, p_subscription_uid uuid, p_after bigint, p_limit integer, p_clock_cap timestamptz)
RETURNS TABLE (partition_id bigint)
LANGUAGE sql STABLE AS $$
    -- The queue is found first and the order names it, so that the page is one walk over the queue's own partitions.
    SELECT p.id
    FROM queen.partitions p
    LEFT JOIN queen.cursors c ON c.subscription_id = p_subscription AND c.partition_id = p.id
    WHERE p.queue_id = (SELECT s.queue_id FROM queen.subscriptions s JOIN queen.queues q ON q.id = s.queue_id AND q.deleted_at IS NULL
                        WHERE s.id = p_subscription AND s.uid = p_subscription_uid AND q.paused_at IS NULL AND s.paused_at IS NULL)
      AND p.id > p_after
      AND p.last_offset >= greatest(coalesce(c.committed, -1) + 1, p.log_start)
      AND (c.lease_expires_at IS NULL OR c.lease_expires_at <= least(clock_timestamp(), p_clock_cap))
      AND (c.not_before IS NULL OR c.not_before <= least(clock_timestamp(), p_clock_cap))
    ORDER BY p.queue_id, p.id
    LIMIT p_limit
$$;
