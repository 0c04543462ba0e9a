-- find_dead_letter finds a dead letter: the one with p_id or, when that is NULL, the newest of the message at p_partition
-- (the wire's id) and p_transaction.
--
-- Callers: the dead letter store.
-- Answer:  no row when there is none, it is another tenant's, or its queue was deleted.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.find_dead_letter(p_tenant uuid, p_id uuid, p_partition uuid, p_transaction text)
RETURNS TABLE (id uuid, queue_name text, partition_uid uuid, partition_name text, group_name text, transaction_id text, error text,
               retry_count integer, failed_at timestamptz, payload bytea, message_offset bigint, message_id uuid, created_at timestamptz)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_id uuid := p_id;
BEGIN
    IF v_id IS NULL THEN
        SELECT d.id INTO v_id
        FROM queen.partitions p
        JOIN queen.dlq d ON d.partition_id = p.id AND hashtextextended(d.transaction_id, 0) = hashtextextended(p_transaction, 0)
            AND d.transaction_id = p_transaction
        WHERE p.uid = p_partition
        ORDER BY d.failed_at DESC, d.id LIMIT 1;
    END IF;
    RETURN QUERY
        SELECT d.id, q.name, p.uid, p.name, d.group_name, d.transaction_id, d.error, d.retry_count, d.failed_at, d.payload,
               d.message_offset, d.message_id, d.created_at
        FROM queen.dlq d
        JOIN queen.queues q ON q.id = d.queue_id AND q.tenant = p_tenant AND q.deleted_at IS NULL
        JOIN queen.partitions p ON p.id = d.partition_id
        WHERE d.id = v_id;
END
$$;
