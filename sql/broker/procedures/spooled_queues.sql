-- spooled_queues says of queues for which something was spooled whether one of the name was deleted since, and whether what
-- is there now deduplicates. What was spooled before a deletion is not for a queue that has the name now, and must not
-- create one.
--
-- Callers: the append log's store, before it replays a spool. append_spooled asks for deletions again, under the
--          partition's lock.
-- Answer:  one row per name, by its place. A queue that is not there yet will deduplicate: that is the default.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.spooled_queues(p_tenants uuid[], p_queues text[], p_ages_ms bigint[])
RETURNS TABLE (place integer, deleted boolean, deduplicates boolean)
LANGUAGE sql VOLATILE AS $$
    SELECT w.place::integer,
           EXISTS (SELECT FROM queen.queues d WHERE d.tenant = w.tenant AND d.name = w.queue
                   AND d.deleted_at > clock_timestamp() - w.age_ms * interval '1 millisecond'),
           coalesce(q.dedup_window_seconds > 0, true)
    FROM unnest(p_tenants, p_queues, p_ages_ms) WITH ORDINALITY AS w(tenant, queue, age_ms, place)
    LEFT JOIN queen.queues q ON q.tenant = w.tenant AND q.name = w.queue AND q.deleted_at IS NULL
$$;
