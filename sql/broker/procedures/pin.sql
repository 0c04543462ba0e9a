-- pin is a group's contact with one named partition. It creates no queue and no partition.
--
-- Callers: the group store.
-- Input:   p_mode and p_from as in subscribe; they count only when the group has no registration on the queue and no
--          cursor in the partition. A registered group's missing cursor stands for its seed, which claim knows.
-- Answer:  no row when queue or partition do not exist.
-- Locks:   none beyond the rows it inserts.
CREATE OR REPLACE FUNCTION queen.pin(
    p_tenant uuid, p_queue text, p_partition text, p_group text, p_mode text, p_from timestamptz)
RETURNS TABLE (subscription_id bigint, subscription_uid uuid, queue_id bigint, partition_id bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_last_offset bigint;
    v_registered  boolean;
BEGIN
    SELECT q.id, p.id, p.last_offset INTO queue_id, partition_id, v_last_offset
    FROM queen.queues q JOIN queen.partitions p ON p.queue_id = q.id AND p.name = p_partition
    WHERE q.tenant = p_tenant AND q.name = p_queue AND q.deleted_at IS NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    LOOP
        SELECT s.id, s.uid, s.registered_at IS NOT NULL INTO subscription_id, subscription_uid, v_registered
        FROM queen.subscriptions s WHERE s.queue_id = pin.queue_id AND s.group_name = p_group;
        EXIT WHEN FOUND;
        INSERT INTO queen.subscriptions (queue_id, group_name) VALUES (pin.queue_id, p_group)
        ON CONFLICT ON CONSTRAINT subscriptions_queue_id_group_name_key DO NOTHING;
    END LOOP;

    -- A cursor fixes the start even where it is -1, so that a later pop with another mode changes nothing.
    IF NOT v_registered AND NOT EXISTS (
        SELECT FROM queen.cursors c WHERE c.subscription_id = pin.subscription_id AND c.partition_id = pin.partition_id)
    THEN
        INSERT INTO queen.cursors (subscription_id, partition_id, committed)
        VALUES (pin.subscription_id, pin.partition_id, queen.start_offset(pin.partition_id, v_last_offset, p_mode, p_from))
        ON CONFLICT ON CONSTRAINT cursors_pkey DO NOTHING;
    END IF;
    RETURN NEXT;
END
$$;
