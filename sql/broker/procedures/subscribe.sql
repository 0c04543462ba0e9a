-- subscribe is a group's first contact with a queue by a wildcard or discovery pop, or finds that it happened.
--
-- Callers: the group store.
-- Input:   p_mode 'all', 'new' or 'from' (then p_from is the time to start at). p_create false creates no queue.
-- Answer:  the subscription and the queue; no row when there is no queue and none was to be created.
-- Locks:   the queue's row FOR NO KEY UPDATE, only at first contact. It waits for the partitions being created, and the
--          statements after it see them; those created later have higher ids and are delivered from their start, whatever
--          any clock says. Cursors are inserted by ascending partition.
DROP FUNCTION IF EXISTS queen.subscribe(uuid, text, text, text, timestamptz);
CREATE OR REPLACE FUNCTION queen.subscribe(
    p_tenant uuid, p_queue text, p_group text, p_mode text, p_from timestamptz, p_create boolean DEFAULT true)
RETURNS TABLE (subscription_id bigint, subscription_uid uuid, queue_id bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_newest bigint;
BEGIN
    LOOP
        SELECT s.id, s.uid, q.id INTO subscription_id, subscription_uid, queue_id
        FROM queen.queues q JOIN queen.subscriptions s ON s.queue_id = q.id AND s.group_name = p_group
        WHERE q.tenant = p_tenant AND q.name = p_queue AND q.deleted_at IS NULL AND s.registered_at IS NOT NULL;
        IF FOUND THEN
            RETURN NEXT;
            RETURN;
        END IF;

        IF p_create THEN
            PERFORM queen.ensure_queues(ARRAY[p_tenant], ARRAY[p_queue]);
        END IF;
        SELECT q.id INTO queue_id FROM queen.queues q
        WHERE q.tenant = p_tenant AND q.name = p_queue AND q.deleted_at IS NULL
        FOR NO KEY UPDATE;
        IF NOT FOUND AND NOT p_create THEN
            RETURN;
        END IF;
        CONTINUE WHEN NOT FOUND; -- deleted between the two statements

        SELECT coalesce(max(p.id), 0) INTO v_newest FROM queen.partitions p WHERE p.queue_id = subscribe.queue_id;

        INSERT INTO queen.subscriptions AS s (queue_id, group_name, newest_partition_id, registered_at, start_mode, start_from)
        VALUES (subscribe.queue_id, p_group, v_newest, clock_timestamp(), p_mode, p_from)
        ON CONFLICT ON CONSTRAINT subscriptions_queue_id_group_name_key DO UPDATE
            SET newest_partition_id = excluded.newest_partition_id, registered_at = excluded.registered_at,
                start_mode = excluded.start_mode, start_from = excluded.start_from
            WHERE s.registered_at IS NULL
        RETURNING s.id, s.uid INTO subscription_id, subscription_uid;
        CONTINUE WHEN NOT FOUND; -- another call registered it while this one waited for the lock

        IF p_mode <> 'all' THEN
            INSERT INTO queen.cursors (subscription_id, partition_id, committed)
            SELECT subscribe.subscription_id, p.id, queen.start_offset(p.id, p.last_offset, p_mode, p_from)
            FROM queen.partitions p
            WHERE p.queue_id = subscribe.queue_id
            ORDER BY p.id
            ON CONFLICT ON CONSTRAINT cursors_pkey DO NOTHING; -- a pop by partition came first
        END IF;
        RETURN NEXT;
        RETURN;
    END LOOP;
END
$$;
