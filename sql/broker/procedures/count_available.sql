-- count_available estimates how many messages a group would find in some partitions of its queue, and says how long the
-- queue lets a poll wait for more. Leases, delays and windows are not looked at.
--
-- Callers: the group store.
-- Answer:  one row; none when the subscription or its queue is gone.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.count_available(p_subscription bigint, p_subscription_uid uuid, p_partitions bigint[])
RETURNS TABLE (min_pop_wait_ms integer, messages bigint)
LANGUAGE sql STABLE AS $$
    SELECT q.min_pop_wait_ms,
           (SELECT coalesce(sum(p.last_offset + 1 - greatest(coalesce(c.committed, -1) + 1, p.log_start)), 0)::bigint
            FROM queen.partitions p
            LEFT JOIN queen.cursors c ON c.subscription_id = p_subscription AND c.partition_id = p.id
            WHERE p.id = ANY (p_partitions) AND p.queue_id = s.queue_id)
    FROM queen.subscriptions s JOIN queen.queues q ON q.id = s.queue_id AND q.deleted_at IS NULL
    WHERE s.id = p_subscription AND s.uid = p_subscription_uid
$$;
