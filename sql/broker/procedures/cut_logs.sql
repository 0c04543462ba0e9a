-- cut_logs moves the start of the log in partitions of a queue whose oldest segments are due. The rows below it are deleted
-- afterwards (remove_segments), without the lock that appends need.
--
-- Callers: the retention store, for a task, page after page.
-- Input:   the due partitions behind (p_since, p_after) in their order; at most p_limit of them, so that no append waits for
--          long.
-- Answer:  one row; none when the task has another holder. looked is how many partitions the page had, 0 at the end, and the
--          position behind it. busy is how many of them were locked and are left to the next cycle. Counts are of messages.
-- Locks:   the task's fence; the queue FOR SHARE, so that it is not deleted and no group registers in between; partitions
--          FOR NO KEY UPDATE by ascending id, SKIP LOCKED; cursors as in retention_floor; rows of queen.retained and then the
--          queue's row of this minute in the history, held to the end.
--
-- Nobody is hurt by a start that moves. An append takes its offset from last_offset. A claim compares what it leases with
-- log_start, which it reads after it has locked its cursor; a cursor below log_start goes on there, and so does a seek. An ack is
-- resolved by dedup rows, which are removed on a clock of their own, or by the segments of its lease, which are spared. A dead
-- letter has its payload. Who remembers a segment has it by (partition, base, tag) and was told of it by a claim.
CREATE OR REPLACE FUNCTION queen.cut_logs(p_task text, p_fence bigint, p_queue bigint, p_since timestamptz, p_after bigint, p_limit integer)
RETURNS TABLE (looked integer, since timestamptz, after bigint, busy integer, cut integer, aged bigint, completed bigint, evicted bigint, unread bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now        timestamptz;
    v_queue      record;
    v_latest     timestamptz; -- what is younger is due by no rule
    v_subs       bigint[];
    v_registered boolean[];
    v_page       bigint[];
    v_part       record;
    v_cut        record;
BEGIN
    IF NOT queen.holds_task(p_task, p_fence) THEN
        RETURN;
    END IF;
    looked := 0; busy := 0; cut := 0; aged := 0; completed := 0; evicted := 0; unread := 0;
    PERFORM FROM queen.queues q WHERE q.id = p_queue AND q.deleted_at IS NULL FOR SHARE;
    v_now := clock_timestamp();
    SELECT r.* INTO v_queue FROM queen.retention_rules(p_queue, v_now) r;
    v_latest := greatest(v_queue.aged, v_queue.completed, v_queue.waited);
    SELECT array_agg(s.id), array_agg(s.registered_at IS NOT NULL) INTO v_subs, v_registered
    FROM queen.subscriptions s WHERE s.queue_id = p_queue;

    SELECT array_agg(r.partition_id), count(*), max(r.segments_since) INTO v_page, looked, since
    FROM (SELECT r.partition_id, r.segments_since FROM queen.retained r
          WHERE r.queue_id = p_queue AND r.segments_since < v_latest AND (r.segments_since, r.partition_id) > (p_since, p_after)
          ORDER BY r.queue_id, r.segments_since, r.partition_id LIMIT p_limit) r;
    after := v_page[looked];
    busy := looked;

    FOR v_part IN
        SELECT p.id, p.log_start, p.last_offset FROM queen.partitions p WHERE p.id = ANY (v_page) ORDER BY p.id FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        busy := busy - 1;
        SELECT * INTO v_cut FROM queen.retention_target(v_part.id, v_part.log_start, v_part.last_offset,
            v_queue.aged, v_queue.completed, v_queue.waited, v_subs, v_registered, v_now);
        IF v_cut.target > v_part.log_start THEN
            UPDATE queen.partitions p SET log_start = v_cut.target WHERE p.id = v_part.id;
            cut := cut + 1;
            aged := aged + v_cut.aged; completed := completed + v_cut.completed;
            evicted := evicted + v_cut.evicted; unread := unread + v_cut.unread;
        END IF;
        UPDATE queen.retained r
        SET segments_since = CASE WHEN v_cut.oldest < v_latest THEN v_latest + queen.retention_pause(v_latest - v_cut.oldest,
                                      v_cut.oldest - v_queue.aged, v_cut.oldest - v_queue.completed, v_cut.oldest - v_queue.waited)
                                  ELSE v_cut.oldest END,
            trash = r.trash OR v_cut.target > v_part.log_start,
            held_by = v_cut.held_by,
            held_since = CASE WHEN v_cut.held_by IS NOT NULL THEN v_cut.oldest + (v_now - v_queue.completed) END
        WHERE r.partition_id = v_part.id;
    END LOOP;

    IF cut > 0 THEN
        PERFORM queen.note_removed(p_queue, v_now, aged, completed, evicted, unread, 0);
    END IF;
    RETURN NEXT;
END
$$;
