-- remove_idle_partitions removes partitions that hold nothing and were neither made nor written for long, among the next
-- p_limit of all. The walk goes on where it ended, whoever made the step before, and begins anew at the end: a step costs the
-- same however many partitions there are.
--
-- Callers: the retention store, for a task.
-- Answer:  one row, how many were removed and whether the walk is at its end; none when the task has another holder.
-- Locks:   the task's row FOR NO KEY UPDATE, to note the position; partitions FOR UPDATE by ascending id, SKIP LOCKED, then
--          their cursors and rows of queen.retained and the history, held to the end. Everything is looked at again under the
--          partition's lock. An append that waits for it finds the partition gone, and makes another with a higher number,
--          which every group reads from its start. Kept are partitions with a segment, a dedup row, a dead letter, the
--          note of a spool that is not at its end, or a lease that ended within the time or has not.
CREATE OR REPLACE FUNCTION queen.remove_idle_partitions(p_task text, p_fence bigint, p_seconds bigint, p_limit integer)
RETURNS TABLE (removed integer, ended boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_before timestamptz := clock_timestamp() - p_seconds * interval '1 s';
    v_after  bigint;
    v_page   bigint[];
    v_gone   bigint[];
    v_queue  record;
BEGIN
    -- Not by holds_task: two that share a lock cannot both write the position.
    SELECT t.position INTO v_after FROM queen.tasks t WHERE t.name = p_task AND t.fence = p_fence FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT array_agg(p.id) INTO v_page FROM (SELECT p.id FROM queen.partitions p WHERE p.id > v_after ORDER BY p.id LIMIT p_limit) p;
    SELECT array_agg(l.id) INTO v_gone FROM (
        SELECT p.id FROM queen.partitions p
        WHERE p.id = ANY (v_page) AND p.log_start > p.last_offset AND p.created_at < v_before AND (p.last_created_at < v_before) IS NOT FALSE
        ORDER BY p.id FOR UPDATE SKIP LOCKED) l;
    SELECT array_agg(p.id) INTO v_gone FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id AND q.deleted_at IS NULL
    WHERE p.id = ANY (v_gone)
      AND NOT EXISTS (SELECT FROM queen.segments g WHERE g.partition_id = p.id LIMIT 1)
      AND NOT EXISTS (SELECT FROM queen.dedup d WHERE d.partition_id = p.id LIMIT 1)
      AND NOT EXISTS (SELECT FROM queen.dlq d WHERE d.partition_id = p.id LIMIT 1)
      AND NOT EXISTS (SELECT FROM queen.spool_marks m WHERE m.partition_id = p.id LIMIT 1)
      AND NOT EXISTS (SELECT FROM queen.subscriptions s CROSS JOIN LATERAL (
                          SELECT greatest(c.lease_expires_at, c.lease_leap_end) AS until FROM queen.cursors c
                          WHERE c.subscription_id = s.id AND c.partition_id = p.id LIMIT 1) c
                      WHERE s.queue_id = p.queue_id AND c.until > v_before);
    IF v_gone IS NOT NULL THEN
        DELETE FROM queen.cursors c USING queen.partitions p, queen.subscriptions s
        WHERE p.id = ANY (v_gone) AND s.queue_id = p.queue_id AND c.subscription_id = s.id AND c.partition_id = p.id;
        DELETE FROM queen.retained r WHERE r.partition_id = ANY (v_gone);
        FOR v_queue IN SELECT p.queue_id, count(*) AS n FROM queen.partitions p WHERE p.id = ANY (v_gone) GROUP BY 1 ORDER BY 1 LOOP
            PERFORM queen.note_removed(v_queue.queue_id, clock_timestamp(), 0, 0, 0, 0, v_queue.n);
        END LOOP;
        DELETE FROM queen.partitions p WHERE p.id = ANY (v_gone);
    END IF;
    removed := coalesce(cardinality(v_gone), 0);
    ended := coalesce(cardinality(v_page), 0) < p_limit;
    UPDATE queen.tasks t SET position = CASE WHEN ended THEN 0 ELSE v_page[p_limit] END WHERE t.name = p_task;
    RETURN NEXT;
END
$$;
