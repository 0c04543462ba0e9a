-- remove_segments deletes rows below the starts of their logs, in partitions of one queue.
--
-- Callers: the retention store, for a task, batch after batch.
-- Input:   p_limit bounds the rows.
-- Answer:  one row, how many were deleted; none when the task has another holder. Fewer than p_limit: nothing is left that was
--          not locked.
-- Locks:   the task's fence, then rows of queen.retained by ascending partition, SKIP LOCKED, and the segments, held to the
--          end. Nobody else writes to segments that are there, and nobody waits for these: no claim looks below log_start.
CREATE OR REPLACE FUNCTION queen.remove_segments(p_task text, p_fence bigint, p_queue bigint, p_limit integer)
RETURNS TABLE (removed integer)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_page bigint[];
BEGIN
    IF NOT queen.holds_task(p_task, p_fence) THEN
        RETURN;
    END IF;
    SELECT array_agg(l.partition_id) INTO v_page FROM (
        SELECT r.partition_id FROM queen.retained r WHERE r.queue_id = p_queue AND r.trash
        ORDER BY r.queue_id, r.partition_id LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED) l;

    WITH doomed AS MATERIALIZED (
        SELECT p.id, s.base_offset
        FROM unnest(v_page) AS w(id) JOIN queen.partitions p ON p.id = w.id
        CROSS JOIN LATERAL (SELECT g.base_offset FROM queen.segments g
                            WHERE g.partition_id = p.id AND g.base_offset < p.log_start ORDER BY g.base_offset LIMIT p_limit) s
        LIMIT p_limit
    )
    DELETE FROM queen.segments g USING doomed d WHERE g.partition_id = d.id AND g.base_offset = d.base_offset;
    GET DIAGNOSTICS removed = ROW_COUNT;

    -- Where log_start moves at this moment, cut_logs waits for these rows and marks them again.
    UPDATE queen.retained r SET trash = false
    FROM unnest(v_page) AS w(id) LEFT JOIN queen.partitions p ON p.id = w.id
    WHERE r.partition_id = w.id
      AND NOT EXISTS (SELECT FROM queen.segments g WHERE g.partition_id = w.id AND g.base_offset < p.log_start LIMIT 1);
    RETURN NEXT;
END
$$;
