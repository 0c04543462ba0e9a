-- renew_task lets the lease of a task count from now.
--
-- Callers: the task store.
-- Answer:  whether the caller still holds the task.
-- Locks:   the task's row; it waits for steps of the holder that are under way.
CREATE OR REPLACE FUNCTION queen.renew_task(p_task text, p_fence bigint, p_lease_ms bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE queen.tasks t SET lease_expires_at = clock_timestamp() + p_lease_ms * interval '1 ms'
    WHERE t.name = p_task AND t.fence = p_fence;
    RETURN FOUND;
END
$$;
