-- remove_orphan_cursors removes cursors of identities that have ended (delete_group), which mean nothing to anybody.
--
-- Callers: the retention store, for a task, step after step.
-- Input:   p_after is where the step before ended, 0 for the first; p_limit bounds the identities that are looked at, and the
--          cursors that are removed.
-- Answer:  one row, how many were removed and how far the walk came, NULL at its end; none when the task has another holder.
-- Locks:   the task's fence, then the cursors by ascending (subscription, partition), SKIP LOCKED, held to the end: whoever
--          drops the same ones is left to it.
CREATE OR REPLACE FUNCTION queen.remove_orphan_cursors(p_task text, p_fence bigint, p_after bigint, p_limit integer)
RETURNS TABLE (removed integer, next_after bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_n integer;
BEGIN
    IF NOT queen.holds_task(p_task, p_fence) THEN
        RETURN;
    END IF;
    removed := 0; next_after := p_after;
    FOR i IN 1..p_limit LOOP
        -- One look-up leads from a subscription to the next that has a cursor.
        SELECT c.subscription_id INTO next_after FROM queen.cursors c
        WHERE c.subscription_id > remove_orphan_cursors.next_after ORDER BY c.subscription_id LIMIT 1;
        EXIT WHEN next_after IS NULL;
        CONTINUE WHEN EXISTS (SELECT FROM queen.subscriptions s WHERE s.id = next_after);
        DELETE FROM queen.cursors c WHERE c.subscription_id = next_after AND c.partition_id IN (
            SELECT o.partition_id FROM queen.cursors o WHERE o.subscription_id = next_after
            ORDER BY o.partition_id LIMIT p_limit - removed FOR UPDATE SKIP LOCKED);
        GET DIAGNOSTICS v_n = ROW_COUNT; removed := removed + v_n;
        IF removed >= p_limit THEN
            next_after := next_after - 1; EXIT; -- it may have more
        END IF;
    END LOOP;
    RETURN NEXT;
END
$$;
