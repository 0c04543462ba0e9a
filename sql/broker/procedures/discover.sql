-- discover lists the queues of a tenant with that namespace and that task; NULL matches any. Both are exact.
--
-- Callers: the group store.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.discover(p_tenant uuid, p_namespace text, p_task text)
RETURNS TABLE (queue_name text)
LANGUAGE sql STABLE AS $$
    SELECT q.name FROM queen.queues q
    WHERE q.tenant = p_tenant AND q.deleted_at IS NULL
      AND (p_namespace IS NULL OR q.namespace = p_namespace)
      AND (p_task IS NULL OR q.task = p_task)
    ORDER BY q.id
$$;
