-- claim_task takes a task whose time has come and that nobody holds.
--
-- Callers: the task store.
-- Input:   p_lease_ms is how long others keep off unless the lease is renewed (renew_task). What lies further ahead than two
--          periods, or two leases, was written before the clock fell back, and does not count.
-- Answer:  one row. fence is NULL when the task was not taken; wait_ms is then how long until it is due, or until its holder's
--          lease ends, and NULL when it is disabled. period is the time the work was due at: the same for every holder that
--          works this period, and for no other.
-- Locks:   an advisory lock of the transaction, tried once, so that those who ask together do not queue up; then the task's
--          row, SKIP LOCKED: a step of a holder that has been waiting there decides first. Both end with this call, which is
--          a transaction of its own and touches no other table.
CREATE OR REPLACE FUNCTION queen.claim_task(p_task text, p_holder text, p_period_ms bigint, p_lease_ms bigint)
RETURNS TABLE (fence bigint, period timestamptz, wait_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now   timestamptz;
    v_until timestamptz;
    v_task  queen.tasks;
BEGIN
    wait_ms := 1000;
    IF NOT pg_try_advisory_xact_lock(737001, hashtext(p_task)) THEN
        RETURN NEXT; -- somebody else is asking at this moment
        RETURN;
    END IF;
    INSERT INTO queen.tasks (name)
    SELECT p_task WHERE NOT EXISTS (SELECT FROM queen.tasks t WHERE t.name = p_task)
    ON CONFLICT ON CONSTRAINT tasks_name_pkey DO NOTHING;
    SELECT * INTO v_task FROM queen.tasks t WHERE t.name = p_task FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NEXT;
        RETURN;
    END IF;

    v_now := clock_timestamp();
    IF NOT v_task.enabled THEN
        wait_ms := NULL; RETURN NEXT;
        RETURN;
    END IF;
    v_task.due_at := CASE WHEN v_task.due_at > v_now + 2 * p_period_ms * interval '1 ms' THEN v_now ELSE v_task.due_at END;
    v_until := greatest(v_task.due_at,
        CASE WHEN v_task.lease_expires_at < v_now + 2 * p_lease_ms * interval '1 ms' THEN v_task.lease_expires_at END);
    IF v_until > v_now THEN
        wait_ms := ceil(extract(epoch FROM v_until - v_now) * 1000); RETURN NEXT;
        RETURN;
    END IF;
    UPDATE queen.tasks t
    SET fence = t.fence + 1, due_at = v_task.due_at, lease_expires_at = v_now + p_lease_ms * interval '1 ms', started_at = v_now, holder = p_holder
    WHERE t.name = p_task
    RETURNING t.fence, t.due_at INTO claim_task.fence, period;
    wait_ms := 0;
    RETURN NEXT;
END
$$;
