-- recent_partitions finds the partitions of a tenant that were written since a time.
--
-- Callers: the inspection store.
-- Input:   what is NULL does not narrow.
-- Answer:  at most p_limit, the latest written first as far as the steps of written_at tell; a partition that is named comes
--          whenever it was written.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.recent_partitions(
    p_tenant uuid, p_queue text, p_partition text, p_namespace text, p_task text, p_from timestamptz, p_limit integer)
RETURNS TABLE (partition_id bigint, partition_uid uuid, partition_name text, queue_name text, namespace text, task text,
               priority integer, last_created_at timestamptz)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_queues bigint[];
    v_found  bigint[];
BEGIN
    IF p_queue IS NULL THEN
        SELECT array_agg(q.id) INTO v_queues FROM queen.queues q
        WHERE q.tenant = p_tenant AND q.deleted_at IS NULL
          AND (p_namespace IS NULL OR q.namespace = p_namespace) AND (p_task IS NULL OR q.task = p_task);
    ELSE
        SELECT array_agg(q.id) INTO v_queues FROM queen.queues q
        WHERE q.tenant = p_tenant AND q.name = p_queue AND q.deleted_at IS NULL
          AND (p_namespace IS NULL OR q.namespace = p_namespace) AND (p_task IS NULL OR q.task = p_task);
    END IF;
    IF p_partition IS NOT NULL THEN
        SELECT array_agg(p.id) INTO v_found FROM queen.partitions p WHERE p.queue_id = ANY (v_queues) AND p.name = p_partition;
    ELSE
        SELECT array_agg(n.id) INTO v_found FROM (
            SELECT l.id FROM unnest(v_queues) AS w(id) CROSS JOIN LATERAL (
                SELECT p.id, p.written_at FROM queen.partitions p
                WHERE p.queue_id = w.id AND p.written_at >= p_from - interval '15 s'
                ORDER BY p.written_at DESC, p.id DESC LIMIT p_limit) l
            ORDER BY l.written_at DESC, l.id DESC LIMIT p_limit) n;
    END IF;
    RETURN QUERY
        SELECT p.id, p.uid, p.name, q.name, q.namespace, q.task, q.priority, p.last_created_at
        FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id
        WHERE p.id = ANY (v_found) AND p.last_created_at >= p_from
        ORDER BY p.last_created_at DESC, p.id
        LIMIT p_limit;
END
$$;
