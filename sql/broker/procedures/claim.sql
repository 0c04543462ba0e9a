-- claim leases, for one group and one pop, the spans that follow its cursors in some of the candidate partitions. With
-- p_auto_ack it consumes them instead.
--
-- Callers: the group store, consume.
-- Input:   p_batch, p_max_partitions (NULL: no cap) and p_max_bytes are budgets of the whole call; the first partition
--          may take them all. p_at_least_one gives the first message whatever its size. p_lease_seconds NULL takes the
--          queue's.
--          p_clock_floor and p_clock_cap are the earliest and the latest time that the caller believes this clock can show:
--          beyond them it has leapt. p_clock_cap counts then as the time, and a new lease gets an end by either.
--          p_clock_settled says that nothing else was to be seen for as long as any lease lasts.
--          p_limited says that the caller knows the verdicts 7 to 9; without it no queue has a delivery limit. p_pauses
--          says that it knows 10; without it a pause looks like 2. Without p_inserts nothing is claimed where the cursor has
--          no row yet: the verdict is 11.
-- Answer:  one row per candidate that was tried, in ascending order of partition; a call ends at the first whose next
--          message exceeds the budget:
--            1 took  2 empty  3 leased (until)  4 busy: its cursor is locked  5 deferred (until)  6 gone, or
--              the group has still to be given a cursor here (seed_page)
--            7 exhausted: the message at first_offset must be dead-lettered before anything is claimed here
--            8 took a message that was delivered before: nothing may join it in the pop  9 has one, and the pop has others
--            10 the queue or the group is paused  11 its cursor must be inserted
--          `clock` is the server's clock, uncapped. segment_... name the segments that hold a taken span, in their order.
-- Locks:   cursors by ascending partition, SKIP LOCKED, held to the end. What is compared with a cursor is read by
--          statements after the one that locked it. A cursor's first row is inserted; it waits for whoever inserts the
--          same one.
DROP FUNCTION IF EXISTS queen.claim(bigint, uuid, bigint[], uuid, integer, integer, integer, bigint, boolean, timestamptz, boolean, boolean);
DROP FUNCTION IF EXISTS queen.claim(bigint, uuid, bigint[], uuid, integer, integer, integer, bigint, boolean, timestamptz, boolean, boolean, boolean, boolean);
CREATE OR REPLACE FUNCTION queen.claim(
    p_subscription bigint, p_subscription_uid uuid, p_partitions bigint[], p_lease uuid, p_lease_seconds integer, p_batch integer,
    p_max_partitions integer, p_max_bytes bigint, p_auto_ack boolean, p_clock_cap timestamptz,
    p_at_least_one boolean, p_limited boolean DEFAULT false, p_pauses boolean DEFAULT false, p_inserts boolean DEFAULT true, p_clock_floor timestamptz DEFAULT NULL, p_clock_settled boolean DEFAULT false)
RETURNS TABLE (partition_id bigint, verdict smallint, first_offset bigint, last_offset bigint, attempt integer,
               until timestamptz, partition_uid uuid, partition_name text, clock timestamptz,
               segment_bases bigint[], segment_tags bigint[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_queue   record;
    v_part    record; v_span record;
    v_cursor  queen.cursors;
    v_now     timestamptz; v_leapt boolean; v_length interval; -- the length of a new lease
    v_taken   integer := 0;
    v_batch   bigint := p_batch; v_bytes bigint := p_max_bytes; -- what is left of them
    v_attempt integer;
    v_again   boolean; -- the head was delivered before, and the queue has a delivery limit: it goes alone
BEGIN
    clock := clock_timestamp();
    v_now := least(clock, p_clock_cap); v_leapt := (clock > p_clock_cap OR clock < p_clock_floor) IS TRUE;

    SELECT q.id, CASE WHEN q.lease_seconds > 0 THEN q.lease_seconds ELSE 60 END AS lease_seconds, make_interval(secs => q.delayed_processing_seconds) AS delay,
           make_interval(secs => q.window_buffer_seconds) AS window_buffer,
           CASE WHEN p_limited THEN q.delivery_limit ELSE 0 END AS delivery_limit,
           coalesce(q.paused_at, s.paused_at) IS NOT NULL AS paused, s.seeding_after, s.newest_partition_id
    INTO v_queue
    FROM queen.subscriptions s JOIN queen.queues q ON q.id = s.queue_id AND q.deleted_at IS NULL
    WHERE s.id = p_subscription AND s.uid = p_subscription_uid;

    FOR partition_id IN SELECT DISTINCT c FROM unnest(p_partitions) c ORDER BY c LOOP
        EXIT WHEN v_batch <= 0 OR v_bytes <= 0 OR v_taken >= p_max_partitions;
        first_offset := NULL; last_offset := NULL; attempt := NULL; until := NULL; partition_uid := NULL; partition_name := NULL;
        segment_bases := NULL; segment_tags := NULL;
        IF v_queue.paused THEN
            verdict := CASE WHEN p_pauses THEN 10 ELSE 2 END; RETURN NEXT; CONTINUE;
        END IF;

        SELECT * INTO v_cursor FROM queen.cursors c
        WHERE c.subscription_id = p_subscription AND c.partition_id = claim.partition_id
        FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            v_cursor := NULL;
            IF EXISTS (SELECT FROM queen.cursors c WHERE c.subscription_id = p_subscription AND c.partition_id = claim.partition_id) THEN
                verdict := 4; RETURN NEXT; CONTINUE;
            END IF;
        END IF;
        SELECT p.last_offset, p.log_start, p.uid, p.name INTO v_part
        FROM queen.partitions p WHERE p.id = claim.partition_id AND p.queue_id = v_queue.id;
        IF NOT FOUND OR (v_cursor.committed IS NULL AND claim.partition_id > v_queue.seeding_after AND claim.partition_id <= v_queue.newest_partition_id) THEN
            verdict := 6; RETURN NEXT; CONTINUE;
        END IF;
        IF v_cursor.committed IS NULL THEN
            IF v_part.last_offset < 0 OR NOT p_inserts THEN -- nothing there yet: the missing row still says so
                verdict := CASE WHEN v_part.last_offset < 0 THEN 2 ELSE 11 END; RETURN NEXT; CONTINUE;
            END IF;
            INSERT INTO queen.cursors AS c (subscription_id, partition_id, committed)
            VALUES (p_subscription, claim.partition_id, -1)
            ON CONFLICT ON CONSTRAINT cursors_pkey DO NOTHING
            RETURNING c.* INTO v_cursor;
            IF NOT FOUND THEN
                verdict := 4; RETURN NEXT; CONTINUE; -- another claim made the row and has just ended
            END IF;
        END IF;

        until := queen.end_of_lease(v_cursor, clock, p_clock_cap, p_clock_floor, p_clock_settled);
        IF until > v_now THEN
            verdict := 3; RETURN NEXT; CONTINUE;
        END IF;
        first_offset := greatest(v_cursor.committed + 1, v_part.log_start); until := NULL;
        IF first_offset > v_part.last_offset THEN
            verdict := 2; first_offset := NULL; RETURN NEXT; CONTINUE;
        END IF;
        IF v_cursor.not_before > v_now THEN
            verdict := 5; until := v_cursor.not_before; first_offset := NULL; RETURN NEXT; CONTINUE; -- it was nacked
        END IF;

        -- What lay behind a head that was delivered has been delivered once, too.
        v_attempt := CASE WHEN v_cursor.head_offset = first_offset THEN v_cursor.attempt + 1
                          WHEN first_offset <= greatest(v_cursor.delivered_end, v_cursor.batch_end) AND v_queue.delivery_limit > 0 THEN 2 ELSE 1 END;
        v_again := v_attempt > 1 AND v_queue.delivery_limit > 0;
        IF v_again AND (v_taken > 0 OR NOT p_at_least_one OR queen.is_exhausted(v_cursor, first_offset, v_queue.delivery_limit)) THEN
            verdict := CASE WHEN queen.is_exhausted(v_cursor, first_offset, v_queue.delivery_limit) THEN 7 ELSE 9 END; RETURN NEXT; CONTINUE;
        END IF;

        SELECT * INTO v_span
        FROM queen.measure_span(claim.partition_id, first_offset, CASE WHEN v_again THEN 1 ELSE v_batch END, v_bytes,
            p_at_least_one AND v_taken = 0, v_queue.delay, v_now);
        EXIT WHEN v_span.visible_end IS NULL AND v_span.too_large; -- left for the next call

        IF v_queue.window_buffer > interval '0' AND v_span.oldest + v_queue.window_buffer > v_now AND v_part.last_offset - first_offset + 1 < 100 THEN
            verdict := 5; until := v_span.oldest + v_queue.window_buffer; first_offset := NULL; RETURN NEXT; CONTINUE;
        ELSIF v_span.visible_end IS NULL THEN
            -- Nothing is visible yet, or retention has just removed the segments.
            verdict := CASE WHEN v_span.oldest IS NULL THEN 4 ELSE 5 END;
            until := v_span.oldest + v_queue.delay; first_offset := NULL; RETURN NEXT; CONTINUE;
        END IF;

        last_offset := least(v_span.visible_end, first_offset + CASE WHEN v_again THEN 1 ELSE v_batch END - 1);
        IF p_auto_ack THEN
            attempt := 1;
            UPDATE queen.cursors c
            SET committed = claim.last_offset, batch_end = NULL, lease_id = NULL, lease_expires_at = NULL,
                head_offset = NULL, attempt = 0, retry_count = 0, delivered_end = greatest(c.delivered_end, c.batch_end), alone = 0, not_before = NULL
            WHERE c.subscription_id = p_subscription AND c.partition_id = claim.partition_id;
        ELSE
            attempt := v_attempt; v_length := make_interval(secs => coalesce(p_lease_seconds, v_queue.lease_seconds)); until := v_now + v_length;
            UPDATE queen.cursors c
            SET batch_end = claim.last_offset, lease_id = p_lease, leased_at = claim.clock,
                lease_expires_at = greatest(claim.clock, CASE WHEN v_leapt THEN p_clock_cap END) + v_length,
                lease_leap_at = CASE WHEN v_leapt THEN greatest(claim.clock, p_clock_floor) END, lease_leap_end = CASE WHEN v_leapt THEN claim.until END,
                head_offset = claim.first_offset, attempt = claim.attempt, delivered_end = greatest(c.delivered_end, c.batch_end), not_before = NULL,
                alone = CASE WHEN NOT v_again THEN 0 WHEN c.head_offset = claim.first_offset THEN c.alone + 1 ELSE 1 END
            WHERE c.subscription_id = p_subscription AND c.partition_id = claim.partition_id;
        END IF;

        verdict := CASE WHEN v_again THEN 8 ELSE 1 END; partition_uid := v_part.uid; partition_name := v_part.name;
        segment_bases := v_span.bases; segment_tags := v_span.tags; v_taken := v_taken + 1;
        v_batch := v_batch - (last_offset - first_offset + 1);
        v_bytes := v_bytes - v_span.bytes;
        RETURN NEXT;
        EXIT WHEN v_again;
    END LOOP;
END
$$;
