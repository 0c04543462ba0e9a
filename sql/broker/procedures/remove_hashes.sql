-- remove_hashes deletes dedup rows of a queue's partitions that are past the longest of its deduplication window, its completed
-- retention and 900 s.
--
-- Callers: the retention store, for a task, page after page.
-- Input:   the due partitions behind (p_since, p_after) in their order, at most p_partitions of them, and at most p_limit rows.
-- Answer:  one row; none when the task has another holder. looked is how many partitions the page had, 0 at the end, and the
--          position behind it; removed is rows. A partition that has more than the rest of p_limit stays due.
-- Locks:   the task's fence, then rows of queen.retained by ascending partition, SKIP LOCKED, and the dedup rows, held to the
--          end. No append looks at rows that old. A voucher whose row is gone is not believed, an ack asks for the segments
--          instead, and listings end at the oldest row: these are deleted from the old end.
CREATE OR REPLACE FUNCTION queen.remove_hashes(
    p_task text, p_fence bigint, p_queue bigint, p_since timestamptz, p_after bigint, p_partitions integer, p_limit integer)
RETURNS TABLE (looked integer, since timestamptz, after bigint, removed integer)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_before    timestamptz;
    v_page      bigint[];
    v_partition bigint;
    v_end       bigint;
    v_n         integer;
BEGIN
    IF NOT queen.holds_task(p_task, p_fence) THEN
        RETURN;
    END IF;
    SELECT r.hashed INTO v_before FROM queen.retention_rules(p_queue, clock_timestamp()) r;
    SELECT array_agg(r.partition_id), count(*), max(r.hashes_since) INTO v_page, looked, since
    FROM (SELECT r.partition_id, r.hashes_since FROM queen.retained r
          WHERE r.queue_id = p_queue AND r.hashes_since < v_before AND (r.hashes_since, r.partition_id) > (p_since, p_after)
          ORDER BY r.queue_id, r.hashes_since, r.partition_id LIMIT p_partitions) r;
    after := v_page[looked];
    removed := 0;

    FOR v_partition IN
        SELECT r.partition_id FROM queen.retained r WHERE r.partition_id = ANY (v_page) ORDER BY r.partition_id FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        EXIT WHEN removed >= p_limit;
        v_end := queen.hashed_offset_at(v_partition, v_before);
        DELETE FROM queen.dedup d WHERE d.partition_id = v_partition AND d.base_offset IN (
            SELECT o.base_offset FROM queen.dedup o WHERE o.partition_id = v_partition AND o.base_offset < v_end
            ORDER BY o.base_offset LIMIT p_limit - removed);
        GET DIAGNOSTICS v_n = ROW_COUNT;
        removed := removed + v_n;
        UPDATE queen.retained r
        SET hashes_since = (SELECT d.created_at FROM queen.dedup d WHERE d.partition_id = v_partition ORDER BY d.base_offset LIMIT 1)
        WHERE r.partition_id = v_partition;
    END LOOP;
    RETURN NEXT;
END
$$;
