-- complete ends leases whose whole span was completed, for any number of acks at once. It does what ack does in this one
-- case, which is nearly every ack there is, and leaves everything else to it.
--
-- Callers: consume.
-- Input:   one element per lease: the tenant that acks, the cursor, the partition's wire id, the lease, and the span p_firsts..
--          p_lasts that was claimed under it. The caller knows that the ack names messages of this span only, the last one
--          among them, and that all are completed.
-- Answer:  one row per lease that was live, had all of that span before it and was not locked, by its place; left_behind says
--          that the partition has more for the group. Nothing was changed for the others: ack decides them.
-- Locks:   the cursors, SKIP LOCKED, held to the end.
DROP FUNCTION IF EXISTS queen.complete(timestamptz, uuid[], bigint[], bigint[], uuid[], uuid[], bigint[], bigint[]);
CREATE OR REPLACE FUNCTION queen.complete(
    p_clock_cap timestamptz, p_tenants uuid[], p_subscriptions bigint[], p_partitions bigint[], p_uids uuid[], p_leases uuid[],
    p_firsts bigint[], p_lasts bigint[], p_clock_floor timestamptz DEFAULT NULL, p_clock_settled boolean DEFAULT false)
RETURNS TABLE (place integer, left_behind boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_clock timestamptz := clock_timestamp();
    v_now   timestamptz := least(v_clock, p_clock_cap);
BEGIN
    -- One after the other, each by its key: a join would save little and leave it to the planner whether it reads one row
    -- per lease or all that a group has.
    FOR i IN 1..cardinality(p_leases) LOOP
        PERFORM FROM queen.cursors c, queen.subscriptions s, queen.queues q, queen.partitions p
        WHERE c.subscription_id = p_subscriptions[i] AND c.partition_id = p_partitions[i]
          AND c.lease_id = p_leases[i] AND queen.end_of_lease(c, v_clock, p_clock_cap, p_clock_floor, p_clock_settled) > v_now
          AND c.head_offset = p_firsts[i] AND c.committed < p_firsts[i] AND c.batch_end = p_lasts[i]
          AND s.id = p_subscriptions[i] AND q.id = s.queue_id AND q.tenant = p_tenants[i] AND q.deleted_at IS NULL
          AND p.id = p_partitions[i] AND p.uid = p_uids[i] AND p.queue_id = q.id
        FOR NO KEY UPDATE OF c SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;

        UPDATE queen.cursors c
        SET committed = p_lasts[i], batch_end = NULL, lease_id = NULL, lease_expires_at = NULL, completed_lease_id = p_leases[i],
            retry_count = 0, attempt = 0, not_before = NULL, delivered_end = greatest(c.delivered_end, p_lasts[i])
        WHERE c.subscription_id = p_subscriptions[i] AND c.partition_id = p_partitions[i]
        RETURNING (SELECT p.last_offset > p_lasts[i] FROM queen.partitions p WHERE p.id = p_partitions[i]) INTO left_behind;
        place := i; RETURN NEXT;
    END LOOP;
END
$$;
