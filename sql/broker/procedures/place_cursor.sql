-- place_cursor moves a group's cursor in one partition to its end (p_from NULL), or to the first segment that was committed
-- at or after p_from, which is the end when there is none. Whatever the cursor remembers of deliveries is forgotten: a live
-- lease ends, no retry and no attempt is counted, and an ack of before is stale.
--
-- Callers: seek_page, seek_partition, with the subscription locked.
-- Answer:  whether the partition exists.
-- Locks:   the cursor, held to the end; a missing one is inserted, which waits for whoever inserts the same.
CREATE OR REPLACE FUNCTION queen.place_cursor(p_subscription bigint, p_partition bigint, p_from timestamptz)
RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_partition record;
    v_at        bigint;
BEGIN
    INSERT INTO queen.cursors (subscription_id, partition_id, committed) VALUES (p_subscription, p_partition, -1)
    ON CONFLICT ON CONSTRAINT cursors_pkey DO NOTHING;
    PERFORM FROM queen.cursors c WHERE c.subscription_id = p_subscription AND c.partition_id = p_partition
        FOR NO KEY UPDATE;

    -- Read after the lock, so that an ack which came first is not undone; and the end before the segments, so that what is
    -- appended meanwhile lies behind it.
    SELECT p.last_offset, p.log_start INTO v_partition FROM queen.partitions p WHERE p.id = p_partition;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF p_from IS NOT NULL THEN
        v_at := queen.offset_at(p_partition, p_from);
    END IF;
    UPDATE queen.cursors c
    SET committed = CASE WHEN v_at IS NULL THEN v_partition.last_offset ELSE greatest(v_at, v_partition.log_start) - 1 END,
        batch_end = NULL, lease_id = NULL, lease_expires_at = NULL, leased_at = NULL, lease_leap_at = NULL, lease_leap_end = NULL,
        completed_lease_id = NULL, head_offset = NULL,
        retry_count = 0, attempt = 0, alone = 0, delivered_end = NULL, not_before = NULL
    WHERE c.subscription_id = p_subscription AND c.partition_id = p_partition;
    RETURN true;
END
$$;
