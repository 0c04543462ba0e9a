-- set_pause stops the deliveries of a queue, to one of its groups or to all, or lets them go on. Pushes, acks and renewals
-- are not touched. The pauses of a queue and of a group are two: what is delivered to nobody is not delivered to the group.
--
-- Callers: the group store.
-- Input:   p_group NULL means the queue itself.
-- Answer:  outcome 0: it is as asked, and changed says whether it was not before;
--                  1: no such queue    2: the group has never come to the queue
-- Locks:   the row in question FOR NO KEY UPDATE, the queue's or the subscription's, and nothing else. A claim that has
--          read the row already ends as if it had come before.
CREATE OR REPLACE FUNCTION queen.set_pause(p_tenant uuid, p_queue text, p_group text, p_paused boolean)
RETURNS TABLE (outcome smallint, changed boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_queue        bigint;
    v_subscription bigint;
BEGIN
    outcome := 0;
    IF p_group IS NULL THEN
        SELECT q.id, (q.paused_at IS NOT NULL) <> p_paused INTO v_queue, changed
        FROM queen.queues q WHERE q.tenant = p_tenant AND q.name = p_queue AND q.deleted_at IS NULL
        FOR NO KEY UPDATE;
        IF changed THEN
            UPDATE queen.queues q SET paused_at = CASE WHEN p_paused THEN clock_timestamp() END WHERE q.id = v_queue;
        END IF;
    ELSE
        SELECT q.id INTO v_queue FROM queen.queues q WHERE q.tenant = p_tenant AND q.name = p_queue AND q.deleted_at IS NULL;
        SELECT s.id, (s.paused_at IS NOT NULL) <> p_paused INTO v_subscription, changed
        FROM queen.subscriptions s WHERE s.queue_id = v_queue AND s.group_name = p_group
        FOR NO KEY UPDATE;
        IF changed THEN
            UPDATE queen.subscriptions s SET paused_at = CASE WHEN p_paused THEN clock_timestamp() END WHERE s.id = v_subscription;
        END IF;
    END IF;

    IF v_queue IS NULL THEN
        outcome := 1;
    ELSIF p_group IS NOT NULL AND v_subscription IS NULL THEN
        outcome := 2;
    END IF;
    changed := coalesce(changed, false);
    RETURN NEXT;
END
$$;
