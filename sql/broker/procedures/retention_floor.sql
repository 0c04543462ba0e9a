-- retention_floor says what groups have still to consume in a partition: the first offset that one of them has not, and whose
-- subscription that is; and the first offset that a live lease spans.
--
-- Callers: retention_target, with queue and partition locked.
-- Input:   p_subscriptions are those of the queue, p_registered whether each is registered. p_target is how far the log would
--          be cut: what lies at or behind it is not looked at closely.
-- Answer:  one row. floor is NULL when no group has part in the partition. A registered group without a cursor stands at 0, as
--          does one whose registration has still to come here. leased is NULL without a lease before p_target; a cursor that
--          is locked, by a claim or an ack that is under way, counts as leased.
-- Locks:   cursors that stand before p_target, by ascending subscription, SKIP LOCKED, held to the end: so none of these is
--          leased before the cut is visible to whoever claims. The first claim of a group in a partition may be: it inserts
--          its cursor and may lease what is being cut; its consumer is then given what is left.
CREATE OR REPLACE FUNCTION queen.retention_floor(
    p_partition bigint, p_subscriptions bigint[], p_registered boolean[], p_target bigint, p_now timestamptz)
RETURNS TABLE (floor bigint, floor_subscription bigint, leased bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_sub    record;
    v_cursor queen.cursors;
BEGIN
    FOR v_sub IN
        SELECT w.id, w.registered, c.committed
        FROM unnest(p_subscriptions, p_registered) AS w(id, registered)
        LEFT JOIN LATERAL (SELECT c.committed FROM queen.cursors c
                           WHERE c.subscription_id = w.id AND c.partition_id = p_partition LIMIT 1) c ON true
        ORDER BY w.id
    LOOP
        CONTINUE WHEN v_sub.committed IS NULL AND NOT v_sub.registered;
        v_sub.committed := coalesce(v_sub.committed, -1);
        IF v_sub.committed + 1 < p_target THEN
            SELECT * INTO v_cursor FROM queen.cursors c
            WHERE c.subscription_id = v_sub.id AND c.partition_id = p_partition
            FOR NO KEY UPDATE SKIP LOCKED;
            IF FOUND THEN
                v_sub.committed := v_cursor.committed;
                -- A second more than it has, and both ends that it may have (165_lease_leaps): to spare too much costs nothing.
                IF greatest(v_cursor.lease_expires_at, v_cursor.lease_leap_end) > p_now - interval '1 s' AND v_cursor.lease_id IS NOT NULL THEN
                    leased := least(leased, v_cursor.committed + 1);
                END IF;
            ELSIF EXISTS (SELECT FROM queen.cursors c WHERE c.subscription_id = v_sub.id AND c.partition_id = p_partition) THEN
                leased := least(leased, v_sub.committed + 1);
            END IF;
        END IF;
        IF floor IS NULL OR v_sub.committed + 1 < floor THEN
            floor := v_sub.committed + 1; floor_subscription := v_sub.id;
        END IF;
    END LOOP;
    RETURN NEXT;
END
$$;
