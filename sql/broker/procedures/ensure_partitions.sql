-- ensure_partitions finds the partitions of (tenant, queue, partition) triples and creates what is missing, queues
-- first.
--
-- Callers: the append log, before it first appends to a partition.
-- Answer:  one row per triple, by its place; queue_created says that this call has created its queue, which others are to
--          be told. A triple is absent when another call created its partition, or deleted its
--          queue, at the same time: call again.
-- Locks:   queue rows FOR SHARE, by (tenant, name), only when a partition is missing. A registration locks the same
--          row exclusively, so a partition is either among those the registration counted or has a higher id.
DROP FUNCTION IF EXISTS queen.ensure_partitions(uuid[], text[], text[]);
CREATE OR REPLACE FUNCTION queen.ensure_partitions(p_tenants uuid[], p_queues text[], p_partitions text[])
RETURNS TABLE (place integer, partition_id bigint, partition_uid uuid, queue_created boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_known   integer;
    v_tenants uuid[]; -- of the queues that were created
    v_queues  text[];
BEGIN
    IF cardinality(p_tenants) <> cardinality(p_queues) OR cardinality(p_tenants) <> cardinality(p_partitions) THEN
        RAISE EXCEPTION 'ensure_partitions: arrays differ in length' USING ERRCODE = 'QU001';
    END IF;

    RETURN QUERY
        SELECT w.place::integer, p.id, p.uid, false
        FROM unnest(p_tenants, p_queues, p_partitions) WITH ORDINALITY AS w(tenant, queue, partition, place)
        JOIN queen.queues q ON q.tenant = w.tenant AND q.name = w.queue AND q.deleted_at IS NULL
        JOIN queen.partitions p ON p.queue_id = q.id AND p.name = w.partition;
    GET DIAGNOSTICS v_known = ROW_COUNT;
    IF v_known = cardinality(p_tenants) THEN
        RETURN;
    END IF;

    SELECT array_agg(e.tenant), array_agg(e.queue_name) INTO v_tenants, v_queues FROM queen.ensure_queues(p_tenants, p_queues) e;

    -- The identity values below are drawn under this lock.
    PERFORM FROM queen.queues q
        WHERE q.deleted_at IS NULL AND (q.tenant, q.name) IN (SELECT w.tenant, w.queue FROM unnest(p_tenants, p_queues) AS w(tenant, queue))
        ORDER BY q.tenant, q.name
        FOR SHARE;

    RETURN QUERY
        WITH wanted AS (
            SELECT w.place::integer AS place, q.id AS queue_id, w.tenant, w.queue, w.partition
            FROM unnest(p_tenants, p_queues, p_partitions) WITH ORDINALITY AS w(tenant, queue, partition, place)
            JOIN queen.queues q ON q.tenant = w.tenant AND q.name = w.queue AND q.deleted_at IS NULL
            WHERE NOT EXISTS (SELECT FROM queen.partitions p WHERE p.queue_id = q.id AND p.name = w.partition)
        ), created AS (
            INSERT INTO queen.partitions (queue_id, name)
            SELECT DISTINCT w.queue_id, w.partition FROM wanted w ORDER BY 1, 2
            ON CONFLICT ON CONSTRAINT partitions_queue_id_name_key DO NOTHING
            RETURNING id, uid, queue_id, name
        )
        SELECT w.place, c.id, c.uid, EXISTS (SELECT FROM unnest(v_tenants, v_queues) AS n(tenant, queue) WHERE n.tenant = w.tenant AND n.queue = w.queue)
        FROM wanted w JOIN created c ON c.queue_id = w.queue_id AND c.name = w.partition;
END
$$;
