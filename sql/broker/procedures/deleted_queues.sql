-- deleted_queues says of which names a queue was deleted within a time: what was spooled for it before is not for a queue
-- that has the name now, and must not create one.
--
-- Callers: the append log's store, before it replays a spool. append_spooled asks again, under the partition's lock.
-- Answer:  the places of those names.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.deleted_queues(p_tenants uuid[], p_queues text[], p_ages_ms bigint[])
RETURNS SETOF integer
LANGUAGE sql VOLATILE AS $$
    SELECT w.place::integer
    FROM unnest(p_tenants, p_queues, p_ages_ms) WITH ORDINALITY AS w(tenant, queue, age_ms, place)
    WHERE EXISTS (SELECT FROM queen.queues d WHERE d.tenant = w.tenant AND d.name = w.queue
                  AND d.deleted_at > clock_timestamp() - w.age_ms * interval '1 millisecond')
$$;
