-- subscription_names tells what subscriptions are called: who frees a cursor knows it by number, other processes by name.
--
-- Callers: the group store.
-- Answer:  a row for each one that exists; its queue may be deleted.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.subscription_names(p_subscriptions bigint[])
RETURNS TABLE (subscription_id bigint, queue_name text, group_name text)
LANGUAGE sql STABLE AS $$
    SELECT s.id, q.name, s.group_name
    FROM queen.subscriptions s JOIN queen.queues q ON q.id = s.queue_id
    WHERE s.id = ANY (p_subscriptions)
$$;
