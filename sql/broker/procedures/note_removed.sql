-- note_removed adds to the history of a queue what a step has removed.
--
-- Callers: cut_logs, remove_idle_partitions.
-- Locks:   the queue's row of this minute, held to the end.
CREATE OR REPLACE FUNCTION queen.note_removed(
    p_queue bigint, p_now timestamptz, p_aged bigint, p_completed bigint, p_evicted bigint, p_unread bigint, p_partitions bigint)
RETURNS void
LANGUAGE sql VOLATILE AS $$
    INSERT INTO queen.retention_history AS h (queue_id, minute, aged, completed, evicted, unread, partitions, steps)
    VALUES (p_queue, date_trunc('minute', p_now), p_aged, p_completed, p_evicted, p_unread, p_partitions, 1)
    ON CONFLICT ON CONSTRAINT retention_history_queue_id_minute_pkey DO UPDATE
        SET aged = h.aged + excluded.aged, completed = h.completed + excluded.completed, evicted = h.evicted + excluded.evicted,
            unread = h.unread + excluded.unread, partitions = h.partitions + excluded.partitions, steps = h.steps + 1
$$;
