-- release_lease gives back what a lease holds, as if it had never been delivered: for answers that did not reach their
-- consumer. Of a cursor that an ack has moved since, or whose lease has ended, nothing changes.
--
-- Callers: the group store.
-- Input:   p_subscriptions and p_partitions are the cursors to give back; NULL searches all that the lease holds, which
--          reads the whole table.
-- Answer:  the cursors that were given back.
-- Locks:   the cursors by ascending partition, held to the end.
DROP FUNCTION IF EXISTS queen.release_lease(uuid, uuid, timestamptz, bigint[], bigint[]);
CREATE OR REPLACE FUNCTION queen.release_lease(
    p_tenant uuid, p_lease uuid, p_clock_cap timestamptz, p_subscriptions bigint[], p_partitions bigint[],
    p_clock_floor timestamptz DEFAULT NULL, p_clock_settled boolean DEFAULT false)
RETURNS TABLE (subscription_id bigint, partition_id bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_clock timestamptz := clock_timestamp();
    v_now   timestamptz := least(v_clock, p_clock_cap);
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

    -- Retention may have moved the head past what follows the cursor; up to there it is unmoved.
    RETURN QUERY
        UPDATE queen.cursors c
        SET lease_id = NULL, lease_expires_at = NULL, batch_end = NULL, attempt = greatest(c.attempt - 1, 0), alone = greatest(c.alone - 1, 0)
        FROM queen.subscriptions s JOIN queen.queues q ON q.id = s.queue_id
        WHERE (c.subscription_id, c.partition_id) IN (SELECT k.s, k.p FROM unnest(p_subscriptions, p_partitions) AS k(s, p))
          AND c.lease_id = p_lease AND queen.end_of_lease(c, v_clock, p_clock_cap, p_clock_floor, p_clock_settled) > v_now AND c.committed < c.head_offset
          AND s.id = c.subscription_id AND q.tenant = p_tenant AND q.deleted_at IS NULL
        RETURNING c.subscription_id, c.partition_id;
END
$$;
