-- change_subscription notes on every registration of a group the time it is said to begin at. It moves no cursor, and
-- nothing is delivered differently: a partition without a cursor is delivered from its start, whatever the registration
-- says. What was asked for when the group was registered has become cursors then, or is on the way to it.
--
-- Callers: the group store.
-- Answer:  the queues whose registration was changed.
-- Locks:   subscriptions by ascending id.
CREATE OR REPLACE FUNCTION queen.change_subscription(p_tenant uuid, p_group text, p_from timestamptz)
RETURNS TABLE (queue_name text)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_subscription record;
BEGIN
    FOR v_subscription IN
        SELECT s.id, q.name
        FROM queen.queues q JOIN queen.subscriptions s ON s.queue_id = q.id AND s.group_name = p_group
        WHERE q.tenant = p_tenant AND q.deleted_at IS NULL AND s.registered_at IS NOT NULL
        ORDER BY s.id
        FOR NO KEY UPDATE OF s
    LOOP
        UPDATE queen.subscriptions s SET start_mode = 'from', start_from = p_from WHERE s.id = v_subscription.id;
        queue_name := v_subscription.name;
        RETURN NEXT;
    END LOOP;
END
$$;
