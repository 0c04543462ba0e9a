-- reap_queue removes some of what a deleted queue has left. The queue's own row stays, with the time of its deletion: a spool
-- that still holds messages of the queue is told by it that they are nobody's (spooled_queues, append_spooled).
--
-- Callers: the retention store, for a task, step after step.
-- Input:   p_partitions bounds the partitions that are looked at, p_limit the rows of each table.
-- Answer:  one row, how many rows of all tables went, and whether that was the last; none when the task has another holder.
--          0 and not the last: what is left is locked by somebody.
-- Locks:   the task's fence; partitions FOR UPDATE by ascending id, SKIP LOCKED; what belongs to them, held to the end. The
--          queue was deleted a minute ago, so nobody makes a partition or a registration in it, and whoever comes by a
--          partition or subscription finds the queue deleted, or finds nothing.
CREATE OR REPLACE FUNCTION queen.reap_queue(p_task text, p_fence bigint, p_queue bigint, p_partitions integer, p_limit integer)
RETURNS TABLE (removed integer, ended boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_page bigint[];
    v_subs bigint[];
    v_n    integer;
BEGIN
    IF NOT queen.holds_task(p_task, p_fence) THEN
        RETURN;
    END IF;
    removed := 0; ended := false;
    IF NOT EXISTS (SELECT FROM queen.queues q WHERE q.id = p_queue AND q.deleted_at < clock_timestamp() - interval '1 min' AND q.reaped_at IS NULL) THEN
        ended := true; RETURN NEXT;
        RETURN;
    END IF;
    SELECT array_agg(s.id) INTO v_subs FROM queen.subscriptions s WHERE s.queue_id = p_queue;
    SELECT array_agg(l.id) INTO v_page FROM (
        SELECT p.id FROM queen.partitions p WHERE p.queue_id = p_queue ORDER BY p.queue_id, p.id LIMIT p_partitions FOR UPDATE SKIP LOCKED) l;

    IF v_page IS NOT NULL THEN
        DELETE FROM queen.cursors c WHERE c.subscription_id = ANY (v_subs) AND c.partition_id = ANY (v_page);
        GET DIAGNOSTICS removed = ROW_COUNT;
        DELETE FROM queen.segments g USING (
            SELECT w.id, s.base_offset FROM unnest(v_page) AS w(id)
            CROSS JOIN LATERAL (SELECT o.base_offset FROM queen.segments o WHERE o.partition_id = w.id ORDER BY o.base_offset LIMIT p_limit) s LIMIT p_limit) d
        WHERE g.partition_id = d.id AND g.base_offset = d.base_offset;
        GET DIAGNOSTICS v_n = ROW_COUNT; removed := removed + v_n;
        DELETE FROM queen.dedup g USING (
            SELECT w.id, s.base_offset FROM unnest(v_page) AS w(id)
            CROSS JOIN LATERAL (SELECT o.base_offset FROM queen.dedup o WHERE o.partition_id = w.id ORDER BY o.base_offset LIMIT p_limit) s LIMIT p_limit) d
        WHERE g.partition_id = d.id AND g.base_offset = d.base_offset;
        GET DIAGNOSTICS v_n = ROW_COUNT; removed := removed + v_n;
        -- Those that have nothing left go themselves.
        SELECT array_agg(w.id) INTO v_page FROM unnest(v_page) AS w(id)
        WHERE NOT EXISTS (SELECT FROM queen.segments s WHERE s.partition_id = w.id LIMIT 1)
          AND NOT EXISTS (SELECT FROM queen.dedup d WHERE d.partition_id = w.id LIMIT 1);
        DELETE FROM queen.retained r WHERE r.partition_id = ANY (v_page);
        DELETE FROM queen.partitions p WHERE p.id = ANY (v_page);
        GET DIAGNOSTICS v_n = ROW_COUNT; removed := removed + v_n;
        RETURN NEXT;
        RETURN;
    END IF;

    DELETE FROM queen.dlq d WHERE d.id IN (SELECT o.id FROM queen.dlq o WHERE o.queue_id = p_queue LIMIT p_limit);
    GET DIAGNOSTICS removed = ROW_COUNT;
    -- Cursors that a claim inserted after their partition was gone.
    DELETE FROM queen.cursors c USING (
        SELECT w.id, o.partition_id FROM unnest(v_subs) AS w(id)
        CROSS JOIN LATERAL (SELECT o.partition_id FROM queen.cursors o WHERE o.subscription_id = w.id ORDER BY o.partition_id LIMIT p_limit) o LIMIT p_limit) d
    WHERE c.subscription_id = d.id AND c.partition_id = d.partition_id;
    GET DIAGNOSTICS v_n = ROW_COUNT; removed := removed + v_n;
    IF removed = 0 AND NOT EXISTS (SELECT FROM queen.partitions p WHERE p.queue_id = p_queue LIMIT 1) THEN
        DELETE FROM queen.subscriptions s WHERE s.queue_id = p_queue;
        UPDATE queen.queues q SET reaped_at = clock_timestamp() WHERE q.id = p_queue;
        ended := true;
    END IF;
    RETURN NEXT;
END
$$;
