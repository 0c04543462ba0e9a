-- flagged_queues lists the queues whose pushes are treated otherwise than most while the database is away, in pages.
--
-- Callers: the append log's store, for ingest, which keeps the list beside its spool.
-- Answer:  queues with numbers above p_after, in that order, at most p_limit.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.flagged_queues(p_after bigint, p_limit integer)
RETURNS TABLE (id bigint, tenant uuid, name text, encryption_enabled boolean, spool_enabled boolean)
LANGUAGE sql STABLE AS $$
    SELECT q.id, q.tenant, q.name, q.encryption_enabled, q.spool_enabled
    FROM queen.queues q
    WHERE q.deleted_at IS NULL AND (q.encryption_enabled OR NOT q.spool_enabled) AND q.id > p_after
    ORDER BY q.id LIMIT p_limit
$$;
