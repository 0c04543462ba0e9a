-- holds_task says whether a holder of a task has not been replaced. While the calling transaction lasts it is not: who would
-- take the task finds its row locked.
--
-- Callers: every procedure that changes something for a task, before anything else.
-- Input:   what claim_task answered. A lease that ran out does not matter as long as nobody else has taken the task.
-- Locks:   the task's row FOR SHARE, held to the end. Steps of one holder do not wait for each other.
CREATE OR REPLACE FUNCTION queen.holds_task(p_task text, p_fence bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM FROM queen.tasks t WHERE t.name = p_task AND t.fence = p_fence FOR SHARE;
    RETURN FOUND;
END
$$;
