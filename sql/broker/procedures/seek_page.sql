-- seek_page places a group's cursors in the next p_limit partitions of its queue; see place_cursor.
--
-- Callers: the group store, page after page.
-- Input:   p_after is the last partition of the page before, 0 for the first page; p_newest is what begin_seek said.
--          A group whose registration is under way has come as far as the page, when it had come to its beginning.
-- Answer:  one row: the last partition looked at (NULL: there was none left) and how many cursors were placed. No row when
--          the subscription or its queue is gone.
-- Locks:   the subscription FOR NO KEY UPDATE, so it is not deleted meanwhile; cursors by ascending partition. Both are held
--          to the end.
CREATE OR REPLACE FUNCTION queen.seek_page(
    p_subscription bigint, p_subscription_uid uuid, p_after bigint, p_newest bigint, p_limit integer, p_from timestamptz)
RETURNS TABLE (last_partition_id bigint, placed integer)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_sub       record;
    v_partition bigint;
    v_seeded    bigint := 0;
BEGIN
    SELECT s.queue_id, s.newest_partition_id, s.seeding_after >= p_after AS seeds, s.seeding_after INTO v_sub
    FROM queen.subscriptions s JOIN queen.queues q ON q.id = s.queue_id AND q.deleted_at IS NULL
    WHERE s.id = p_subscription AND s.uid = p_subscription_uid
    FOR NO KEY UPDATE OF s;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    placed := 0;
    FOR v_partition IN
        SELECT p.id FROM queen.partitions p
        WHERE p.queue_id = v_sub.queue_id AND p.id > p_after AND p.id <= p_newest
        ORDER BY p.queue_id, p.id LIMIT p_limit
    LOOP
        last_partition_id := v_partition;
        placed := placed + queen.place_cursor(p_subscription, v_partition, p_from)::integer;
        v_seeded := v_seeded + (v_partition > v_sub.seeding_after AND v_partition <= v_sub.newest_partition_id)::integer;
    END LOOP;
    IF placed > 0 THEN
        UPDATE queen.subscriptions s
        SET moves = s.moves + 1,
            seeding_after = CASE WHEN v_sub.seeds THEN greatest(s.seeding_after, last_partition_id) ELSE s.seeding_after END,
            seeded = CASE WHEN v_sub.seeds THEN s.seeded + v_seeded ELSE s.seeded END
        WHERE s.id = p_subscription;
    END IF;
    RETURN NEXT;
END
$$;
