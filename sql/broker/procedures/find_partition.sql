-- find_partition finds a partition by the wire's id.
--
-- Callers: the inspection store.
-- Answer:  no row for one that does not exist, is of another tenant, or whose queue was deleted.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.find_partition(p_tenant uuid, p_partition uuid)
RETURNS TABLE (partition_id bigint, partition_name text, queue_id bigint, queue_name text)
LANGUAGE sql STABLE AS $$
    SELECT p.id, p.name, q.id, q.name
    FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id AND q.tenant = p_tenant AND q.deleted_at IS NULL
    WHERE p.uid = p_partition
$$;
