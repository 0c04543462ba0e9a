-- finish_task gives a task back.
--
-- Callers: the task store.
-- Input:   p_retry_ms is NULL when the work came to its end: the next period begins at the next multiple of p_period_ms since
--          this one, and what was missed meanwhile is not made up for. Otherwise the same period is due again in p_retry_ms.
-- Answer:  whether the caller still held the task; otherwise nothing was changed.
-- Locks:   the task's row; it waits for steps of the holder that are under way.
CREATE OR REPLACE FUNCTION queen.finish_task(p_task text, p_fence bigint, p_period_ms bigint, p_retry_ms bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now    timestamptz := clock_timestamp();
    v_period interval := p_period_ms * interval '1 ms';
BEGIN
    IF p_retry_ms IS NULL THEN
        UPDATE queen.tasks t
        SET lease_expires_at = NULL, ended_at = v_now,
            due_at = greatest(t.due_at + v_period, date_bin(v_period, v_now, t.due_at))
        WHERE t.name = p_task AND t.fence = p_fence;
    ELSE
        UPDATE queen.tasks t SET lease_expires_at = v_now + p_retry_ms * interval '1 ms'
        WHERE t.name = p_task AND t.fence = p_fence;
    END IF;
    RETURN FOUND;
END
$$;
