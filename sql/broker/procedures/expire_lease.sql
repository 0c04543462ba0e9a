-- expire_lease ends a lease on all its cursors as if it had run out now: the delivery counts, no retry is charged, and an ack
-- or a renewal under it comes too late. What an ack has ended already stays as it is.
--
-- Callers: the group store.
-- Input:   as in release_lease, which undoes the delivery instead.
-- Answer:  the cursors that came free.
-- Locks:   the cursors by ascending partition, held to the end.
DROP FUNCTION IF EXISTS queen.expire_lease(uuid, uuid, timestamptz, bigint[], bigint[]);
CREATE OR REPLACE FUNCTION queen.expire_lease(
    p_tenant uuid, p_lease uuid, p_clock_cap timestamptz, p_subscriptions bigint[], p_partitions bigint[],
    p_clock_floor timestamptz DEFAULT NULL, p_clock_settled boolean DEFAULT false)
RETURNS TABLE (subscription_id bigint, partition_id bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_clock timestamptz;
    v_now   timestamptz;
BEGIN
    IF p_subscriptions IS NULL THEN
        SELECT coalesce(array_agg(c.subscription_id), '{}'), coalesce(array_agg(c.partition_id), '{}')
        INTO p_subscriptions, p_partitions
        FROM queen.cursors c WHERE c.lease_id = p_lease;
    END IF;

    PERFORM FROM queen.cursors c
        WHERE (c.subscription_id, c.partition_id) IN (SELECT k.s, k.p FROM unnest(p_subscriptions, p_partitions) AS k(s, p))
        ORDER BY c.partition_id, c.subscription_id
        FOR NO KEY UPDATE;
    v_clock := clock_timestamp();
    v_now := least(v_clock, p_clock_cap);

    RETURN QUERY
        UPDATE queen.cursors c SET lease_expires_at = v_now, lease_leap_at = NULL, lease_leap_end = NULL
        FROM queen.subscriptions s JOIN queen.queues q ON q.id = s.queue_id
        WHERE (c.subscription_id, c.partition_id) IN (SELECT k.s, k.p FROM unnest(p_subscriptions, p_partitions) AS k(s, p))
          AND c.lease_id = p_lease AND queen.end_of_lease(c, v_clock, p_clock_cap, p_clock_floor, p_clock_settled) > v_now
          AND s.id = c.subscription_id AND q.tenant = p_tenant AND q.deleted_at IS NULL
        RETURNING c.subscription_id, c.partition_id;
END
$$;
