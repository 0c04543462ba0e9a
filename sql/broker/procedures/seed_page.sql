-- seed_page goes on with the registration of a group: it gives the group its cursors in the next partitions of those that
-- its queue had at first contact.
--
-- Callers: subscribe.
-- Input:   p_limit bounds the partitions; NULL is no bound.
-- Answer:  one row: how many partitions are done, and of how many, as far as that was counted (2 000 000 stands for more,
--          too); NULL when the registration is at its end. No row when the subscription or its queue is gone.
-- Locks:   the subscription FOR NO KEY UPDATE, so of several calls at once each goes on where the one before ended, and it is
--          not deleted meanwhile; cursors are inserted by ascending partition. Both are held to the end.
CREATE OR REPLACE FUNCTION queen.seed_page(p_subscription bigint, p_subscription_uid uuid, p_limit integer)
RETURNS TABLE (seeded bigint, seeding_of bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_sub  record;
    v_page record;
BEGIN
    SELECT s.queue_id, s.newest_partition_id, s.seeding_after, s.seeding_from, s.seeded, s.seeding_of INTO v_sub
    FROM queen.subscriptions s JOIN queen.queues q ON q.id = s.queue_id AND q.deleted_at IS NULL
    WHERE s.id = p_subscription AND s.uid = p_subscription_uid
    FOR NO KEY UPDATE OF s;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF v_sub.seeding_after IS NULL THEN
        RETURN NEXT; -- another call has come to the end
        RETURN;
    END IF;

    -- A partition that a pop by partition, or a seek, has reached keeps its cursor.
    WITH page AS MATERIALIZED (
        SELECT p.id, p.last_offset FROM queen.partitions p
        WHERE p.queue_id = v_sub.queue_id AND p.id > v_sub.seeding_after AND p.id <= v_sub.newest_partition_id
        ORDER BY p.queue_id, p.id LIMIT p_limit
    ), made AS (
        INSERT INTO queen.cursors (subscription_id, partition_id, committed)
        SELECT p_subscription, p.id,
               queen.start_offset(p.id, p.last_offset, CASE WHEN v_sub.seeding_from IS NULL THEN 'new' ELSE 'from' END, v_sub.seeding_from)
        FROM page p ORDER BY p.id
        ON CONFLICT ON CONSTRAINT cursors_pkey DO NOTHING
    )
    SELECT count(*) AS n, max(p.id) AS last INTO v_page FROM page p;

    IF v_page.n < p_limit OR v_page.last >= v_sub.newest_partition_id OR p_limit IS NULL THEN
        UPDATE queen.subscriptions s SET seeding_after = NULL, seeding_from = NULL, seeded = NULL, seeding_of = NULL WHERE s.id = p_subscription;
    ELSE
        seeded := v_sub.seeded + v_page.n;
        seeding_of := v_sub.seeding_of;
        IF v_sub.seeding_after > 0 AND seeding_of IS NULL THEN -- not by the first call, which holds the queue's lock
            SELECT count(*) INTO seeding_of
            FROM (SELECT FROM queen.partitions p WHERE p.queue_id = v_sub.queue_id AND p.id <= v_sub.newest_partition_id LIMIT 2000000) p;
        END IF;
        UPDATE queen.subscriptions s
        SET seeding_after = coalesce(v_page.last, s.seeding_after), seeded = seed_page.seeded, seeding_of = seed_page.seeding_of
        WHERE s.id = p_subscription;
    END IF;
    RETURN NEXT;
END
$$;
