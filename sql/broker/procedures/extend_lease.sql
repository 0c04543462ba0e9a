-- extend_lease moves the expiry of every live cursor that a lease holds to p_seconds from now, never backwards.
--
-- Callers: the group store.
-- Input:   p_subscriptions and p_partitions are the cursors the caller knows the lease to hold; NULL searches all of them,
--          which reads the whole table. p_clock_cap and p_clock_floor as in claim.
-- Answer:  one row: how many were renewed, and the earliest new expiry (NULL when none).
-- Locks:   the cursors by ascending partition, held to the end.
DROP FUNCTION IF EXISTS queen.extend_lease(uuid, uuid, integer, timestamptz, bigint[], bigint[]);
CREATE OR REPLACE FUNCTION queen.extend_lease(
    p_tenant uuid, p_lease uuid, p_seconds integer, p_clock_cap timestamptz, p_subscriptions bigint[], p_partitions bigint[],
    p_clock_floor timestamptz DEFAULT NULL, p_clock_settled boolean DEFAULT false)
RETURNS TABLE (renewed integer, expires_at timestamptz)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_clock  timestamptz;
    v_now    timestamptz;
    v_leapt  boolean;
    v_length interval := make_interval(secs => greatest(p_seconds, 1));
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
    v_clock := clock_timestamp(); -- after the wait, in which the lease may have been ended
    v_now := least(v_clock, p_clock_cap);
    v_leapt := (v_clock > p_clock_cap OR v_clock < p_clock_floor) IS TRUE;

    UPDATE queen.cursors c
        SET leased_at = v_clock, lease_expires_at = greatest(v_clock, CASE WHEN v_leapt THEN p_clock_cap END) + v_length,
            lease_leap_at = CASE WHEN v_leapt THEN greatest(v_clock, p_clock_floor) END,
            lease_leap_end = CASE WHEN v_leapt THEN v_now + v_length END
        FROM queen.subscriptions s JOIN queen.queues q ON q.id = s.queue_id
        WHERE (c.subscription_id, c.partition_id) IN (SELECT k.s, k.p FROM unnest(p_subscriptions, p_partitions) AS k(s, p))
          AND c.lease_id = p_lease AND queen.end_of_lease(c, v_clock, p_clock_cap, p_clock_floor, p_clock_settled) > v_now AND queen.end_of_lease(c, v_clock, p_clock_cap, p_clock_floor, p_clock_settled) < v_now + v_length
          AND s.id = c.subscription_id AND q.tenant = p_tenant AND q.deleted_at IS NULL;

    SELECT count(*)::integer, min(queen.end_of_lease(c, v_clock, p_clock_cap, p_clock_floor, p_clock_settled)) INTO renewed, expires_at
        FROM queen.cursors c JOIN queen.subscriptions s ON s.id = c.subscription_id JOIN queen.queues q ON q.id = s.queue_id
        WHERE (c.subscription_id, c.partition_id) IN (SELECT k.s, k.p FROM unnest(p_subscriptions, p_partitions) AS k(s, p))
          AND c.lease_id = p_lease AND queen.end_of_lease(c, v_clock, p_clock_cap, p_clock_floor, p_clock_settled) > v_now AND q.tenant = p_tenant AND q.deleted_at IS NULL;
    RETURN NEXT;
END
$$;
