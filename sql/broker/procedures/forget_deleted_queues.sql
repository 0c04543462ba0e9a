-- forget_deleted_queues removes the marks of queues that were deleted long ago and have nothing left.
--
-- Callers: the retention store, for a task, batch after batch.
-- Input:   p_seconds must be longer than any spool may wait: what is replayed later would be stored in a queue that has the
--          name now, or create one.
-- Answer:  one row, how many were removed; none when the task has another holder.
-- Locks:   the task's fence, then the rows, SKIP LOCKED, held to the end.
CREATE OR REPLACE FUNCTION queen.forget_deleted_queues(p_task text, p_fence bigint, p_seconds bigint, p_limit integer)
RETURNS TABLE (removed integer)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF NOT queen.holds_task(p_task, p_fence) THEN
        RETURN;
    END IF;
    DELETE FROM queen.queues q WHERE q.id IN (
        SELECT o.id FROM queen.queues o
        WHERE o.reaped_at IS NOT NULL AND o.deleted_at < clock_timestamp() - p_seconds * interval '1 s'
        ORDER BY o.deleted_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN NEXT;
END
$$;
