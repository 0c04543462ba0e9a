-- queue_flags says how queues want their messages treated before they are appended.
--
-- Callers: the append log's store, for ingest, which keeps the answer for a moment.
-- Answer:  one row per queue that exists, by its place. Only a hint: append decides by what is in force when it writes.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.queue_flags(p_tenants uuid[], p_queues text[])
RETURNS TABLE (place integer, encryption_enabled boolean)
LANGUAGE sql STABLE AS $$
    SELECT w.place::integer, q.encryption_enabled
    FROM unnest(p_tenants, p_queues) WITH ORDINALITY AS w(tenant, queue, place)
    JOIN queen.queues q ON q.tenant = w.tenant AND q.name = w.queue AND q.deleted_at IS NULL
$$;
