-- pin is a group's contact with one named partition. It creates no queue and no partition.
--
-- Callers: the group store.
-- Input:   p_mode and p_from as in subscribe; they count only when the group has no registration on the queue and no
--          cursor in the partition. A registered group's missing cursor stands for its seed, which claim knows; where its
--          registration has still to come to the partition, it is given the cursor now, with the start it was registered for.
-- Answer:  no row when queue or partition do not exist. Where only the partition is missing, it is noted which ones the
--          group has found: one with a higher id has come since, so a group that asks for 'new' gets all of it.
-- Locks:   the queue's row FOR NO KEY UPDATE, only to note that: it waits for partitions being created, as in subscribe.
CREATE OR REPLACE FUNCTION queen.pin(
    p_tenant uuid, p_queue text, p_partition text, p_group text, p_mode text, p_from timestamptz)
RETURNS TABLE (subscription_id bigint, subscription_uid uuid, queue_id bigint, partition_id bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_last_offset bigint;
    v_sub         record;
    v_known       boolean;
    v_locked      boolean := false;
BEGIN
    SELECT q.id INTO queue_id FROM queen.queues q
    WHERE q.tenant = p_tenant AND q.name = p_queue AND q.deleted_at IS NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    LOOP
        SELECT s.id, s.uid, s.registered_at IS NOT NULL AS registered, s.newest_partition_id AS newest, s.seeding_after, s.seeding_from INTO v_sub
        FROM queen.subscriptions s WHERE s.queue_id = pin.queue_id AND s.group_name = p_group;
        v_known := FOUND;
        subscription_id := v_sub.id; subscription_uid := v_sub.uid;
        SELECT p.id, p.last_offset INTO partition_id, v_last_offset
        FROM queen.partitions p WHERE p.queue_id = pin.queue_id AND p.name = p_partition;
        EXIT WHEN FOUND AND v_known;
        IF NOT FOUND AND v_sub.newest IS NOT NULL THEN
            RETURN;
        ELSIF NOT FOUND AND v_locked THEN
            INSERT INTO queen.subscriptions AS s (queue_id, group_name, newest_partition_id)
            VALUES (pin.queue_id, p_group, (SELECT coalesce(max(p.id), 0) FROM queen.partitions p WHERE p.queue_id = pin.queue_id))
            ON CONFLICT ON CONSTRAINT subscriptions_queue_id_group_name_key DO UPDATE
                SET newest_partition_id = coalesce(s.newest_partition_id, excluded.newest_partition_id);
            RETURN;
        ELSIF NOT FOUND THEN
            -- Locked before anything is inserted, as subscribe does it; then everything is looked at again.
            PERFORM FROM queen.queues q WHERE q.id = pin.queue_id AND q.deleted_at IS NULL FOR NO KEY UPDATE;
            IF NOT FOUND THEN
                RETURN; -- deleted meanwhile: nothing is left behind in it
            END IF;
            v_locked := true;
        ELSE
            INSERT INTO queen.subscriptions (queue_id, group_name) VALUES (pin.queue_id, p_group)
            ON CONFLICT ON CONSTRAINT subscriptions_queue_id_group_name_key DO NOTHING;
        END IF;
    END LOOP;

    -- A cursor fixes the start even where it is -1, so that a later pop with another mode changes nothing.
    IF (NOT v_sub.registered OR pin.partition_id > v_sub.seeding_after AND pin.partition_id <= v_sub.newest) AND NOT EXISTS (
        SELECT FROM queen.cursors c WHERE c.subscription_id = pin.subscription_id AND c.partition_id = pin.partition_id)
    THEN
        INSERT INTO queen.cursors (subscription_id, partition_id, committed)
        VALUES (pin.subscription_id, pin.partition_id,
            CASE WHEN v_sub.registered THEN queen.absent_cursor(pin.partition_id, v_last_offset, v_sub.newest, v_sub.seeding_after, v_sub.seeding_from)
                 ELSE queen.start_offset(pin.partition_id, v_last_offset,
                     CASE WHEN p_mode = 'new' AND pin.partition_id > v_sub.newest THEN 'all' ELSE p_mode END, p_from) END)
        ON CONFLICT ON CONSTRAINT cursors_pkey DO NOTHING;
    END IF;
    RETURN NEXT;
END
$$;
