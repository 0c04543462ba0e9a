-- ack decides, for every group of messages that share a partition and a lease, how the consumer group's cursor moves.
--
-- Callers: the group store, transact.
-- Input:   one element per group in p_partitions (wire ids), p_leases (NULL: without a lease) and p_counts; one element
--          per message, all groups one after the other, in p_hashes (NULL resolves to nothing), p_signals (0 completed,
--          1 retry, 2 failed, 3 dead letter) and p_offsets. p_offsets may hold offsets that the caller read from the
--          leased segments; they count only while the cursor still has the span p_span_committed..p_span_ends that they
--          were read from. p_dead_offsets names, per group, the message whose snapshot stands in the other p_dead_
--          arrays, for the case that it must be dead-lettered.
--          p_groups names the consumer group of each element, for a call that concerns several; NULL, or a NULL in it, is
--          p_group. An all-zero lease stands for the one that the cursor has on record, whichever it is; with p_accepted
--          that one, or the last one completed, must be among these.
-- Answer:  one row per group, by its place, with the partition's last offset as of before the decision. outcome:
--            0 decided   item_outcomes: 0 applied 1 noop 2 already committed 3 unresolvable 4 stale lease
--            1 unknown partition    2 no consumer
--            3 offsets needed   nothing changed: call again with the offsets found in needed_offset .. span_end
--            4 snapshot needed  nothing changed: call again with the snapshot of needed_offset
-- Locks:   cursors by ascending partition, in one partition by subscription, held to the end.
DROP FUNCTION IF EXISTS queen.ack(uuid, text, timestamptz, uuid[], uuid[], integer[], uuid[], smallint[], bigint[],
    bigint[], bigint[], bigint[], uuid[], timestamptz[], text[], bytea[], text[], text[], uuid[]);
CREATE OR REPLACE FUNCTION queen.ack(
    p_tenant uuid, p_group text, p_clock_cap timestamptz,
    p_partitions uuid[], p_leases uuid[], p_counts integer[],
    p_hashes uuid[], p_signals smallint[], p_offsets bigint[],
    p_span_committed bigint[], p_span_ends bigint[],
    p_dead_offsets bigint[], p_dead_message_ids uuid[], p_dead_created timestamptz[],
    p_dead_transactions text[], p_dead_payloads bytea[], p_dead_reasons text[],
    p_groups text[] DEFAULT NULL, p_accepted uuid[] DEFAULT NULL, p_clock_floor timestamptz DEFAULT NULL, p_clock_settled boolean DEFAULT false)
RETURNS TABLE (place integer, outcome smallint, item_outcomes smallint[], lease_released boolean, dead_lettered boolean,
               subscription_id bigint, partition_id bigint, committed_offset bigint, span_end bigint, needed_offset bigint, last_offset bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_clock    timestamptz := clock_timestamp();
    v_now      timestamptz := least(v_clock, p_clock_cap);
    v_group    record;
    v_lease    uuid;
    v_cursor   queen.cursors;
    v_hashes   uuid[];
    v_signals  smallint[];
    v_hints    bigint[];     -- the caller's offsets, when they count
    v_above    bigint[];     -- offsets past the cursor and, with a span on record, within it
    v_below    bigint[];     -- offsets at or below the cursor
    v_live     boolean; v_decision record;
BEGIN
    IF cardinality(p_hashes) <> (SELECT coalesce(sum(n), 0) FROM unnest(p_counts) n) OR cardinality(p_hashes) <> cardinality(p_signals) THEN
        RAISE EXCEPTION 'ack: arrays differ in length' USING ERRCODE = 'QU001';
    END IF;

    FOR v_group IN
        SELECT w.place::integer AS place, w.lease, w.n, coalesce(w.name, p_group) AS name, (sum(w.n) OVER (ORDER BY w.place) - w.n)::integer AS before,
               CASE WHEN q.id IS NOT NULL THEN p.id END AS partition_id, p.last_offset, q.id AS queue_id, s.id AS subscription_id,
               q.retry_limit, q.redelivery_delay_seconds AS delay, q.dead_letter_queue OR q.dead_letter_after_retries AS dead_letters
        FROM unnest(p_partitions, p_leases, p_counts, p_groups) WITH ORDINALITY AS w(uid, lease, n, name, place)
        LEFT JOIN queen.partitions p ON p.uid = w.uid
        LEFT JOIN queen.queues q ON q.id = p.queue_id AND q.tenant = p_tenant AND q.deleted_at IS NULL
        LEFT JOIN queen.subscriptions s ON s.queue_id = q.id AND s.group_name = coalesce(w.name, p_group)
        ORDER BY p.id, s.id, w.place
    LOOP
        place := v_group.place; item_outcomes := NULL; lease_released := false; dead_lettered := false;
        subscription_id := v_group.subscription_id; partition_id := v_group.partition_id;
        committed_offset := NULL; span_end := NULL; needed_offset := NULL; last_offset := v_group.last_offset;
        IF partition_id IS NULL THEN
            outcome := 1; RETURN NEXT; CONTINUE;
        END IF;
        SELECT * INTO v_cursor FROM queen.cursors c
        WHERE c.subscription_id = v_group.subscription_id AND c.partition_id = v_group.partition_id
        FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            outcome := 2; RETURN NEXT; CONTINUE;
        END IF;
        committed_offset := v_cursor.committed; span_end := coalesce(v_cursor.batch_end, v_cursor.committed);
        v_hashes := p_hashes[v_group.before + 1:v_group.before + v_group.n];
        v_signals := p_signals[v_group.before + 1:v_group.before + v_group.n];

        -- The lease that an earlier call ended may still repeat its completions; any other stale one may do nothing.
        v_lease := CASE WHEN v_group.lease = '00000000-0000-0000-0000-000000000000' THEN queen.recorded_lease(v_cursor, p_accepted) ELSE v_group.lease END;
        v_live := v_lease IS NULL OR (v_cursor.lease_id = v_lease AND queen.end_of_lease(v_cursor, v_clock, p_clock_cap, p_clock_floor, p_clock_settled) > v_now) IS TRUE;
        IF NOT v_live AND v_cursor.completed_lease_id IS DISTINCT FROM v_lease THEN
            outcome := 0; item_outcomes := array_fill(4::smallint, ARRAY[v_group.n]); RETURN NEXT; CONTINUE;
        END IF;

        v_hints := NULL;
        IF (p_span_committed[place] = v_cursor.committed AND p_span_ends[place] = span_end) IS TRUE THEN
            v_hints := p_offsets[v_group.before + 1:v_group.before + v_group.n];
        ELSIF (v_cursor.batch_end IS NOT NULL) = v_live AND queen.lacks_hashes(partition_id,
            CASE WHEN v_live THEN v_cursor.committed + 1 ELSE v_cursor.head_offset END, span_end)
        THEN
            -- Hash rows have their own clock and may be gone while an old backlog is being consumed. Of a live lease its
            -- span is asked for, of one that has just been completed what it held.
            outcome := 3; needed_offset := least(v_cursor.head_offset, v_cursor.committed + 1); RETURN NEXT; CONTINUE;
        END IF;
        v_above := coalesce((SELECT array_agg(CASE WHEN h.o > v_cursor.committed THEN h.o END ORDER BY h.place)
                             FROM unnest(v_hints) WITH ORDINALITY AS h(o, place)),
            queen.resolve_transactions(partition_id, v_hashes, v_cursor.committed + 1,
                coalesce(v_cursor.batch_end, (SELECT p.last_offset FROM queen.partitions p WHERE p.id = v_group.partition_id AND v_live), v_cursor.committed)));
        v_below := NULL;
        IF array_position(v_above, NULL) IS NOT NULL THEN
            SELECT array_agg(coalesce(h.o, h.stored) ORDER BY h.place) INTO v_below
            FROM unnest(v_hints, queen.resolve_consumed(partition_id, v_hashes, coalesce(v_hints, v_above), v_cursor.committed)) WITH ORDINALITY AS h(o, stored, place);
        END IF;

        SELECT * INTO v_decision FROM queen.judge_acks(v_signals, v_above, v_below, v_live);
        outcome := 0; item_outcomes := v_decision.item_outcomes;
        committed_offset := coalesce(v_decision.completed_offset, v_cursor.committed);

        IF v_decision.stop_offset IS NULL OR v_cursor.batch_end IS NULL THEN
            -- Without a span on record a nack has nothing to give back.
            lease_released := (committed_offset >= v_cursor.batch_end) IS TRUE;
            IF lease_released THEN
                v_cursor.retry_count := 0;
            END IF;
        ELSE
            lease_released := true;
            IF v_decision.stop_signal = 3 OR (v_decision.stop_signal = 2 AND v_cursor.retry_count >= v_group.retry_limit) THEN
                IF v_decision.stop_signal = 3 OR v_group.dead_letters THEN
                    IF p_dead_offsets[place] IS DISTINCT FROM v_decision.stop_offset THEN
                        outcome := 4; lease_released := false; item_outcomes := NULL; needed_offset := v_decision.stop_offset;
                        committed_offset := v_cursor.committed; RETURN NEXT; CONTINUE;
                    END IF;
                    INSERT INTO queen.dlq (id, queue_id, partition_id, message_offset, failed_at, created_at, retry_count,
                                           message_id, group_name, transaction_id, error, payload)
                    VALUES (gen_random_uuid(), v_group.queue_id, v_group.partition_id, v_decision.stop_offset, v_now, p_dead_created[ack.place],
                            v_cursor.retry_count, p_dead_message_ids[ack.place], v_group.name, p_dead_transactions[ack.place],
                            p_dead_reasons[ack.place], p_dead_payloads[ack.place]);
                    dead_lettered := true;
                END IF;
                committed_offset := v_decision.stop_offset;
                v_cursor.retry_count := 0;
            ELSIF v_decision.stop_signal = 2 THEN
                v_cursor.retry_count := v_cursor.retry_count + 1;
            END IF;
        END IF;

        IF lease_released THEN
            UPDATE queen.cursors c
            SET committed = ack.committed_offset, batch_end = NULL, lease_id = NULL, lease_expires_at = NULL,
                retry_count = v_cursor.retry_count, completed_lease_id = v_cursor.lease_id,
                attempt = CASE WHEN ack.committed_offset >= v_cursor.batch_end THEN 0 ELSE c.attempt END,
                not_before = CASE WHEN ack.committed_offset < v_decision.stop_offset AND v_group.delay > 0 -- given back by a nack
                                  THEN v_now + make_interval(secs => v_group.delay) END,
                delivered_end = greatest(c.delivered_end, c.batch_end)
            WHERE c.subscription_id = v_group.subscription_id AND c.partition_id = v_group.partition_id;
        ELSIF committed_offset > v_cursor.committed THEN
            UPDATE queen.cursors c SET committed = ack.committed_offset, not_before = NULL
            WHERE c.subscription_id = v_group.subscription_id AND c.partition_id = v_group.partition_id;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
