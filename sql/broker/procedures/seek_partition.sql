-- seek_partition places a group's cursor in one partition; see place_cursor. A group that is new to the queue becomes one
-- that pops by partition, as by pin: its later registration leaves this cursor alone.
--
-- Callers: the group store.
-- Answer:  whose cursor it is; no row when queue or partition do not exist.
-- Locks:   the subscription FOR NO KEY UPDATE, so it is not deleted meanwhile; then the cursor.
CREATE OR REPLACE FUNCTION queen.seek_partition(p_tenant uuid, p_queue text, p_partition text, p_group text, p_from timestamptz)
RETURNS TABLE (subscription_id bigint, partition_id bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_queue_id bigint;
BEGIN
    SELECT q.id, p.id INTO v_queue_id, partition_id
    FROM queen.queues q JOIN queen.partitions p ON p.queue_id = q.id AND p.name = p_partition
    WHERE q.tenant = p_tenant AND q.name = p_queue AND q.deleted_at IS NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    LOOP
        SELECT s.id INTO subscription_id FROM queen.subscriptions s
        WHERE s.queue_id = v_queue_id AND s.group_name = p_group
        FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO queen.subscriptions (queue_id, group_name) VALUES (v_queue_id, p_group)
        ON CONFLICT ON CONSTRAINT subscriptions_queue_id_group_name_key DO NOTHING;
    END LOOP;
    IF queen.place_cursor(subscription_id, partition_id, p_from) THEN
        UPDATE queen.subscriptions s SET moves = s.moves + 1 WHERE s.id = subscription_id;
        RETURN NEXT;
    END IF;
END
$$;
