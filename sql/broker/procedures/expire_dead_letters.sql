-- expire_dead_letters removes dead letters that were filed long ago, of queues that are there.
--
-- Callers: the retention store, for a task, batch after batch.
-- Answer:  one row, how many were removed; none when the task has another holder.
-- Locks:   the task's fence, then dead letters, SKIP LOCKED, held to the end: what is being replayed or purged is left to that.
CREATE OR REPLACE FUNCTION queen.expire_dead_letters(p_task text, p_fence bigint, p_seconds bigint, p_limit integer)
RETURNS TABLE (removed integer)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF NOT queen.holds_task(p_task, p_fence) THEN
        RETURN;
    END IF;
    DELETE FROM queen.dlq d WHERE d.id IN (
        SELECT l.id FROM queen.dlq l WHERE l.id IN (
            SELECT o.id FROM queen.queues q CROSS JOIN LATERAL (
                SELECT o.id FROM queen.dlq o WHERE o.queue_id = q.id AND o.failed_at < clock_timestamp() - p_seconds * interval '1 s'
                ORDER BY o.failed_at LIMIT p_limit) o
            WHERE q.deleted_at IS NULL LIMIT p_limit)
        FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN NEXT;
END
$$;
