-- begin_seek finds a group on a queue, for a seek over all its partitions. A group that is new to the queue is registered
-- as by a pop that begins where the seek goes, so nobody can take from elsewhere meanwhile. The cursors that such a
-- registration needs are left to the pages of the seek and to the next pop, which writes what they have not.
--
-- Callers: the group store.
-- Input:   p_from as in place_cursor.
-- Answer:  the subscription, and the newest partition: the seek leaves alone what is created from now on. No row when there
--          is no such queue or it has no partition; none is created.
-- Locks:   those of subscribe.
CREATE OR REPLACE FUNCTION queen.begin_seek(p_tenant uuid, p_queue text, p_group text, p_from timestamptz)
RETURNS TABLE (subscription_id bigint, subscription_uid uuid, newest_partition_id bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_queue_id bigint;
BEGIN
    PERFORM FROM queen.queues q JOIN queen.partitions p ON p.queue_id = q.id
        WHERE q.tenant = p_tenant AND q.name = p_queue AND q.deleted_at IS NULL LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    SELECT s.subscription_id, s.subscription_uid, s.queue_id INTO subscription_id, subscription_uid, v_queue_id
    FROM queen.subscribe(p_tenant, p_queue, p_group, CASE WHEN p_from IS NULL THEN 'new' ELSE 'from' END, p_from, false, 0) s;
    SELECT max(p.id) INTO newest_partition_id FROM queen.partitions p WHERE p.queue_id = v_queue_id;
    IF newest_partition_id IS NOT NULL THEN -- else it was deleted meanwhile
        RETURN NEXT;
    END IF;
END
$$;
