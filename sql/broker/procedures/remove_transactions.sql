-- remove_transactions removes transactions that nobody may ask for any more.
--
-- Callers: the retention store, for a task, batch after batch.
-- Input:   p_seconds is how old they are; p_limit bounds the batch.
-- Answer:  one row, how many were removed; none when the task has another holder.
-- Locks:   the task's fence, then the rows, SKIP LOCKED, held to the end. Whoever looks for the same id at this moment found
--          it, or comes too late by p_seconds.
CREATE OR REPLACE FUNCTION queen.remove_transactions(p_task text, p_fence bigint, p_seconds bigint, p_limit integer)
RETURNS TABLE (removed integer)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF NOT queen.holds_task(p_task, p_fence) THEN
        RETURN;
    END IF;
    DELETE FROM queen.transactions t WHERE t.id IN (
        SELECT o.id FROM queen.transactions o
        WHERE o.created_at < clock_timestamp() - p_seconds * interval '1 s' LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN NEXT;
END
$$;
