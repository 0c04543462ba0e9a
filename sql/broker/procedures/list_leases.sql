-- list_leases walks the cursors of a tenant's groups and gives those under a live lease. No index knows which these are,
-- because every claim would change it: the walk reads each cursor once, a bounded number a call.
--
-- Callers: the group store.
-- Input:   p_queue and p_group narrow the walk; NULL means any. It goes by (subscription, partition), and on from
--          (p_after_subscription, p_after_partition); zeros for the first call. p_limit bounds the cursors and groups that
--          are looked at. p_clock_cap and p_clock_floor as in
--          claim.
-- Answer:  a row for each live lease, in the order of the walk, and a last row without one: how far the walk came, and
--          whether there is more behind it. A span begins where it was claimed, or behind what has been acked of it.
-- Locks:   none.
DROP FUNCTION IF EXISTS queen.list_leases(uuid, text, text, bigint, bigint, integer, timestamptz);
CREATE OR REPLACE FUNCTION queen.list_leases(
    p_tenant uuid, p_queue text, p_group text, p_after_subscription bigint, p_after_partition bigint, p_limit integer, p_clock_cap timestamptz,
    p_clock_floor timestamptz DEFAULT NULL, p_clock_settled boolean DEFAULT false)
RETURNS TABLE (lease_id uuid, queue_name text, partition_name text, partition_uid uuid, group_name text, first_offset bigint,
               last_offset bigint, attempt integer, expires_at timestamptz, subscription_id bigint, partition_id bigint, more boolean)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_clock timestamptz := clock_timestamp();
    v_now   timestamptz := least(v_clock, p_clock_cap);
    v_left  bigint := p_limit;
    v_group record;
    v_after bigint;
    v_page  record;
    v_at    bigint[] := ARRAY[p_after_subscription, p_after_partition];
BEGIN
    FOR v_group IN
        SELECT s.id, s.group_name, q.name FROM queen.queues q JOIN queen.subscriptions s ON s.queue_id = q.id
        WHERE q.tenant = p_tenant AND q.deleted_at IS NULL AND (p_queue IS NULL OR q.name = p_queue)
          AND (p_group IS NULL OR s.group_name = p_group) AND s.id >= p_after_subscription
        ORDER BY s.id
    LOOP
        EXIT WHEN v_left <= 0;
        v_after := CASE WHEN v_group.id = p_after_subscription THEN p_after_partition ELSE 0 END;
        SELECT count(*) AS n, coalesce(max(c.partition_id), v_after) AS last INTO v_page
        FROM (SELECT c.partition_id FROM queen.cursors c WHERE c.subscription_id = v_group.id AND c.partition_id > v_after
              ORDER BY c.partition_id LIMIT v_left) c;
        RETURN QUERY
            SELECT c.lease_id, v_group.name, p.name, p.uid, v_group.group_name, greatest(c.committed + 1, p.log_start), c.batch_end,
                   c.attempt, queen.end_of_lease(c, v_clock, p_clock_cap, p_clock_floor, p_clock_settled), v_group.id, c.partition_id, NULL::boolean
            FROM queen.cursors c JOIN queen.partitions p ON p.id = c.partition_id
            WHERE c.subscription_id = v_group.id AND c.partition_id > v_after AND c.partition_id <= v_page.last AND queen.end_of_lease(c, v_clock, p_clock_cap, p_clock_floor, p_clock_settled) > v_now
            ORDER BY c.partition_id;
        v_at := ARRAY[v_group.id, v_page.last];
        -- The group that the walk goes on in costs nothing when it is done, or the walk would not get past it.
        v_left := v_left - greatest(v_page.n, CASE WHEN v_group.id = p_after_subscription THEN 0 ELSE 1 END);
    END LOOP;

    lease_id := NULL; subscription_id := v_at[1]; partition_id := v_at[2]; more := v_left <= 0;
    RETURN NEXT;
END
$$;
