-- extend_lease moves the expiry of every live cursor that a lease holds to p_seconds from now, never backwards.
--
-- Callers: the group store.
-- Input:   p_subscriptions and p_partitions are the cursors the caller knows the lease to hold; NULL searches all of them,
--          which reads the whole table. p_clock_cap and from when it counts are as in claim.
-- Answer:  one row: how many were renewed, and the earliest new expiry (NULL when none).
-- Locks:   the cursors by ascending partition, held to the end.
CREATE OR REPLACE FUNCTION queen.extend_lease(
    p_tenant uuid, p_lease uuid, p_seconds integer, p_clock_cap timestamptz, p_subscriptions bigint[], p_partitions bigint[])
RETURNS TABLE (renewed integer, expires_at timestamptz)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now  timestamptz;
    v_from timestamptz; -- the renewal counts from here
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
    v_from := clock_timestamp(); -- after the wait, in which the lease may have been ended
    v_now := least(v_from, p_clock_cap);
    v_from := CASE WHEN v_from < p_clock_cap - interval '1 s' THEN p_clock_cap - interval '500 ms' ELSE v_from END;

    WITH extended AS (
        UPDATE queen.cursors c
        SET lease_expires_at = greatest(c.lease_expires_at, v_from + make_interval(secs => greatest(p_seconds, 1)))
        FROM queen.subscriptions s JOIN queen.queues q ON q.id = s.queue_id
        WHERE (c.subscription_id, c.partition_id) IN (SELECT k.s, k.p FROM unnest(p_subscriptions, p_partitions) AS k(s, p))
          AND c.lease_id = p_lease AND c.lease_expires_at > v_now
          AND s.id = c.subscription_id AND q.tenant = p_tenant AND q.deleted_at IS NULL
        RETURNING c.lease_expires_at
    )
    SELECT count(*)::integer, min(e.lease_expires_at) INTO renewed, expires_at FROM extended e;
    RETURN NEXT;
END
$$;
