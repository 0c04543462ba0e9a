-- group_positions says where the groups of partitions' queues stand in these partitions.
--
-- Callers: the inspection store.
-- Answer:  one row per partition and group, by name. A registered group without a cursor has its seed; one that only pops
--          by partition, and has not here, has no part in the partition. lease_expires_at is that of a live lease, which
--          covers the offsets behind `committed` up to batch_end.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.group_positions(p_partitions bigint[])
RETURNS TABLE (partition_id bigint, group_name text, committed bigint, batch_end bigint, lease_expires_at timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT p.id, s.group_name,
           coalesce(c.committed, queen.absent_cursor(p.id, p.last_offset, s.newest_partition_id, s.seeding_after, s.seeding_from)), c.batch_end,
           CASE WHEN queen.end_of_lease(c, now(), NULL, NULL, false) > now() THEN queen.end_of_lease(c, now(), NULL, NULL, false) END
    FROM queen.partitions p
    JOIN queen.subscriptions s ON s.queue_id = p.queue_id
    LEFT JOIN queen.cursors c ON c.subscription_id = s.id AND c.partition_id = p.id
    WHERE p.id = ANY (p_partitions) AND (s.registered_at IS NOT NULL OR c.partition_id IS NOT NULL)
    ORDER BY p.id, s.group_name
$$;
