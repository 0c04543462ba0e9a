-- dead_letter_heads gives up messages that claim called exhausted: each is filed as a dead letter, or dropped where the
-- queue has none, and the cursor moves past it.
--
-- Callers: the group store, which cuts the messages out of their segments.
-- Input:   one element per message. What claim said is decided anew under the lock, so of two callers with the same
--          message one files it.
-- Answer:  the partitions whose cursor moved.
-- Locks:   cursors by ascending partition, SKIP LOCKED, held to the end.
DROP FUNCTION IF EXISTS queen.dead_letter_heads(bigint, uuid, timestamptz, bigint[], bigint[], uuid[], timestamptz[], text[], bytea[]);
CREATE OR REPLACE FUNCTION queen.dead_letter_heads(
    p_subscription bigint, p_subscription_uid uuid, p_clock_cap timestamptz, p_partitions bigint[], p_offsets bigint[],
    p_message_ids uuid[], p_created timestamptz[], p_transactions text[], p_payloads bytea[],
    p_clock_floor timestamptz DEFAULT NULL, p_clock_settled boolean DEFAULT false)
RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_clock  timestamptz := clock_timestamp();
    v_now    timestamptz := least(v_clock, p_clock_cap);
    v_queue  record;
    v_given  record;
    v_cursor queen.cursors;
    v_first  bigint;
BEGIN
    SELECT q.id, q.delivery_limit, q.dead_letter_queue OR q.dead_letter_after_retries AS dead_letters, s.group_name
    INTO v_queue
    FROM queen.subscriptions s JOIN queen.queues q ON q.id = s.queue_id AND q.deleted_at IS NULL
    WHERE s.id = p_subscription AND s.uid = p_subscription_uid;

    FOR v_given IN
        SELECT w.* FROM unnest(p_partitions, p_offsets, p_message_ids, p_created, p_transactions, p_payloads)
            AS w(partition_id, message_offset, message_id, created_at, transaction_id, payload)
        ORDER BY w.partition_id
    LOOP
        SELECT * INTO v_cursor FROM queen.cursors c
        WHERE c.subscription_id = p_subscription AND c.partition_id = v_given.partition_id
        FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND OR queen.end_of_lease(v_cursor, v_clock, p_clock_cap, p_clock_floor, p_clock_settled) > v_now;

        SELECT greatest(v_cursor.committed + 1, p.log_start) INTO v_first
        FROM queen.partitions p WHERE p.id = v_given.partition_id AND p.queue_id = v_queue.id;
        CONTINUE WHEN v_first IS DISTINCT FROM v_given.message_offset
            OR NOT queen.is_exhausted(v_cursor, v_first, v_queue.delivery_limit);

        IF v_queue.dead_letters THEN
            INSERT INTO queen.dlq (id, queue_id, partition_id, message_offset, failed_at, created_at, retry_count,
                                   message_id, group_name, transaction_id, error, payload)
            VALUES (gen_random_uuid(), v_queue.id, v_given.partition_id, v_first, v_now, v_given.created_at, v_cursor.retry_count,
                    v_given.message_id, v_queue.group_name, v_given.transaction_id,
                    format('delivered %s times and not completed (deliveryLimit %s)', v_cursor.attempt, v_queue.delivery_limit),
                    v_given.payload);
        END IF;
        -- The lease that ran out was not completed: an ack under it is stale, as any after an expiry.
        UPDATE queen.cursors c
        SET committed = v_first, batch_end = NULL, lease_id = NULL, lease_expires_at = NULL, retry_count = 0, attempt = 0,
            alone = 0, delivered_end = greatest(c.delivered_end, c.batch_end), not_before = NULL
        WHERE c.subscription_id = p_subscription AND c.partition_id = v_given.partition_id;
        RETURN NEXT v_given.partition_id;
    END LOOP;
END
$$;
