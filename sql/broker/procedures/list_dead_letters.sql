-- list_dead_letters is a page of a tenant's dead letters, newest failure first.
--
-- Callers: the dead letter store.
-- Input:   p_queue, p_partition and p_group narrow, NULL does not; p_from and p_before bound the failure, p_before itself
--          excluded. p_max_bytes is for the payloads of the page.
-- Answer:  at most p_limit rows, in order. A payload that would go beyond p_max_bytes is NULL; the first one never is.
-- Locks:   none.
--
-- A queue's dead letters are in order in an index, those of a tenant are merged: first the newest of each queue, which
-- says which queues can have a row in the page and how old one can be. So it costs an index look-up a queue, and the rows
-- up to the end of the page. What was filed before the queue was deleted is nobody's.
CREATE OR REPLACE FUNCTION queen.list_dead_letters(
    p_tenant uuid, p_queue text, p_partition text, p_group text, p_from timestamptz, p_before timestamptz,
    p_limit integer, p_offset integer, p_max_bytes bigint)
RETURNS TABLE (id uuid, queue_name text, partition_uid uuid, partition_name text, group_name text, transaction_id text,
               error text, retry_count integer, failed_at timestamptz, payload bytea)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_queues     bigint[];
    v_partitions bigint[];
    v_reach      bigint := p_offset::bigint + p_limit;
    v_from       timestamptz := coalesce(p_from, '-infinity');
    v_before     timestamptz := coalesce(p_before, 'infinity');
    v_newest     timestamptz[];
    v_ids        uuid[];
BEGIN
    IF p_queue IS NULL THEN
        SELECT array_agg(q.id) INTO v_queues FROM queen.queues q WHERE q.tenant = p_tenant AND q.deleted_at IS NULL;
    ELSE
        SELECT array_agg(q.id) INTO v_queues FROM queen.queues q
        WHERE q.tenant = p_tenant AND q.name = p_queue AND q.deleted_at IS NULL;
    END IF;
    IF p_partition IS NOT NULL THEN
        SELECT array_agg(p.id) INTO v_partitions FROM queen.partitions p
        WHERE p.queue_id = ANY (v_queues) AND p.name = p_partition;
        SELECT array_agg(r.id ORDER BY r.failed_at DESC, r.id) INTO v_ids FROM (
            SELECT d.id, d.failed_at FROM unnest(v_partitions) AS w(id) CROSS JOIN LATERAL (
                SELECT l.id, l.failed_at FROM queen.dlq l
                WHERE l.partition_id = w.id AND l.failed_at >= v_from AND l.failed_at < v_before
                  AND (p_group IS NULL OR l.group_name = p_group)
                ORDER BY l.failed_at DESC, l.id LIMIT v_reach) d
            ORDER BY d.failed_at DESC, d.id LIMIT p_limit OFFSET p_offset) r;
    ELSIF p_group IS NOT NULL THEN
        SELECT array_agg(n.queue_id), array_agg(n.failed_at ORDER BY n.failed_at DESC) INTO v_queues, v_newest FROM (
            SELECT w.id AS queue_id, d.failed_at FROM unnest(v_queues) AS w(id) CROSS JOIN LATERAL (
                SELECT l.failed_at FROM queen.dlq l
                WHERE l.queue_id = w.id AND l.group_name = p_group AND l.failed_at >= v_from AND l.failed_at < v_before
                ORDER BY l.failed_at DESC, l.id LIMIT 1) d
            ORDER BY d.failed_at DESC LIMIT v_reach) n;
        v_from := coalesce(v_newest[v_reach], v_from);
        SELECT array_agg(r.id ORDER BY r.failed_at DESC, r.id) INTO v_ids FROM (
            SELECT d.id, d.failed_at FROM unnest(v_queues) AS w(id) CROSS JOIN LATERAL (
                SELECT l.id, l.failed_at FROM queen.dlq l
                WHERE l.queue_id = w.id AND l.group_name = p_group AND l.failed_at >= v_from AND l.failed_at < v_before
                ORDER BY l.failed_at DESC, l.id LIMIT v_reach) d
            ORDER BY d.failed_at DESC, d.id LIMIT p_limit OFFSET p_offset) r;
    ELSE
        SELECT array_agg(n.queue_id), array_agg(n.failed_at ORDER BY n.failed_at DESC) INTO v_queues, v_newest FROM (
            SELECT w.id AS queue_id, d.failed_at FROM unnest(v_queues) AS w(id) CROSS JOIN LATERAL (
                SELECT l.failed_at FROM queen.dlq l
                WHERE l.queue_id = w.id AND l.failed_at >= v_from AND l.failed_at < v_before
                ORDER BY l.failed_at DESC, l.id LIMIT 1) d
            ORDER BY d.failed_at DESC LIMIT v_reach) n;
        v_from := coalesce(v_newest[v_reach], v_from);
        SELECT array_agg(r.id ORDER BY r.failed_at DESC, r.id) INTO v_ids FROM (
            SELECT d.id, d.failed_at FROM unnest(v_queues) AS w(id) CROSS JOIN LATERAL (
                SELECT l.id, l.failed_at FROM queen.dlq l
                WHERE l.queue_id = w.id AND l.failed_at >= v_from AND l.failed_at < v_before
                ORDER BY l.failed_at DESC, l.id LIMIT v_reach) d
            ORDER BY d.failed_at DESC, d.id LIMIT p_limit OFFSET p_offset) r;
    END IF;

    -- The size of a payload is known without reading it.
    RETURN QUERY
        SELECT d.id, q.name, p.uid, p.name, d.group_name, d.transaction_id, d.error, d.retry_count, d.failed_at,
               CASE WHEN w.place = 1 OR sum(octet_length(d.payload)) OVER (ORDER BY w.place) <= p_max_bytes THEN d.payload END
        FROM unnest(v_ids) WITH ORDINALITY AS w(id, place)
        JOIN queen.dlq d ON d.id = w.id
        JOIN queen.queues q ON q.id = d.queue_id
        JOIN queen.partitions p ON p.id = d.partition_id
        ORDER BY w.place;
END
$$;
