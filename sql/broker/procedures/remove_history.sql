-- remove_history removes what is too old of the history of retention.
--
-- Callers: the retention store, for a task, batch after batch.
-- Answer:  one row, how many rows were removed; none when the task has another holder.
-- Locks:   the task's fence, then the rows, held to the end; nobody else writes to minutes that are over.
CREATE OR REPLACE FUNCTION queen.remove_history(p_task text, p_fence bigint, p_seconds bigint, p_limit integer)
RETURNS TABLE (removed integer)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF NOT queen.holds_task(p_task, p_fence) THEN
        RETURN;
    END IF;
    DELETE FROM queen.retention_history h WHERE (h.queue_id, h.minute) IN (
        SELECT o.queue_id, o.minute FROM queen.retention_history o
        WHERE o.minute < clock_timestamp() - p_seconds * interval '1 s' ORDER BY o.minute LIMIT p_limit);
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN NEXT;
END
$$;
