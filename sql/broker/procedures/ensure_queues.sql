-- ensure_queues creates the queues that do not exist yet, with the defaults of the table. Namespace and task are the
-- first two dot-separated parts of the name; a name without a dot is its own namespace and has no task.
--
-- Callers: ensure_partitions, subscribe.
-- Answer:  the queues that this call has created.
-- Locks:   inserts in (tenant, name) order; waits for whoever is inserting the same name.
DROP FUNCTION IF EXISTS queen.ensure_queues(uuid[], text[]);
CREATE OR REPLACE FUNCTION queen.ensure_queues(p_tenants uuid[], p_queues text[])
RETURNS TABLE (tenant uuid, queue_name text)
LANGUAGE sql VOLATILE AS $$
    INSERT INTO queen.queues AS c (tenant, name, namespace, task)
    SELECT DISTINCT w.tenant, w.queue, split_part(w.queue, '.', 1), split_part(w.queue, '.', 2)
    FROM unnest(p_tenants, p_queues) AS w(tenant, queue)
    WHERE NOT EXISTS (SELECT FROM queen.queues q WHERE q.tenant = w.tenant AND q.name = w.queue AND q.deleted_at IS NULL)
    ORDER BY 1, 2
    ON CONFLICT (tenant, name) WHERE deleted_at IS NULL DO NOTHING
    RETURNING c.tenant, c.name
$$;
