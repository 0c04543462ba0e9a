-- remove_dead_letters removes the dead letters of one message, those of all groups. The message itself stays.
--
-- Callers: the dead letter store.
-- Input:   p_partition is the wire's id.
-- Answer:  how many were removed; a partition of another tenant has none.
-- Locks:   dead letters by ascending id, held to the end.
CREATE OR REPLACE FUNCTION queen.remove_dead_letters(p_tenant uuid, p_partition uuid, p_transaction text)
RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_partition bigint;
    v_ids       uuid[];
    v_removed   integer;
BEGIN
    SELECT p.id INTO v_partition
    FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id AND q.tenant = p_tenant AND q.deleted_at IS NULL
    WHERE p.uid = p_partition;
    SELECT array_agg(l.id) INTO v_ids FROM (
        SELECT d.id FROM queen.dlq d
        WHERE d.partition_id = v_partition AND hashtextextended(d.transaction_id, 0) = hashtextextended(p_transaction, 0)
          AND d.transaction_id = p_transaction
        ORDER BY d.id FOR UPDATE) l;
    DELETE FROM queen.dlq d WHERE d.id = ANY (v_ids);
    GET DIAGNOSTICS v_removed = ROW_COUNT;
    RETURN v_removed;
END
$$;
