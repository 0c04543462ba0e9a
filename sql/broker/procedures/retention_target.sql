-- retention_target says how far the rules of a queue cut the log of one of its partitions.
--
-- Callers: cut_logs, with queue and partition locked.
-- Input:   what is older than p_aged or p_waited goes, read or not, but for spans under a live lease; what is older than
--          p_completed goes once every group has consumed it, and nothing where there is no group. NULL: no such rule. The
--          rest is as in retention_floor.
-- Answer:  one row: where the log begins then; how many messages go by which rule, and how many of them had not been consumed;
--          when the oldest one that stays was committed, NULL without any; and the subscription that holds it, NULL when none
--          does.
-- Locks:   those of retention_floor.
CREATE OR REPLACE FUNCTION queen.retention_target(
    p_partition bigint, p_log_start bigint, p_last_offset bigint, p_aged timestamptz, p_completed timestamptz, p_waited timestamptz,
    p_subscriptions bigint[], p_registered boolean[], p_now timestamptz)
RETURNS TABLE (target bigint, aged bigint, completed bigint, evicted bigint, unread bigint, oldest timestamptz, held_by bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_aged      bigint := p_log_start;
    v_waited    bigint := p_log_start;
    v_completed bigint := p_log_start;
    v_most      bigint;
    v_floor     bigint;
    v_holder    bigint;
    v_leased    bigint;
BEGIN
    IF p_aged IS NOT NULL THEN
        v_aged := coalesce(queen.offset_at(p_partition, p_aged), p_last_offset + 1);
    END IF;
    IF p_waited IS NOT NULL THEN
        v_waited := coalesce(queen.offset_at(p_partition, p_waited), p_last_offset + 1);
    END IF;
    IF p_completed IS NOT NULL THEN
        v_completed := coalesce(queen.offset_at(p_partition, p_completed), p_last_offset + 1);
    END IF;
    v_most := greatest(v_aged, v_waited, v_completed);

    IF v_most > p_log_start THEN
        SELECT f.floor, f.floor_subscription, f.leased INTO v_floor, v_holder, v_leased
        FROM queen.retention_floor(p_partition, p_subscriptions, p_registered, v_most, p_now) f;
        v_completed := greatest(p_log_start, least(v_completed, queen.segment_bound(p_partition, coalesce(v_floor, 0))));
        v_leased := queen.segment_bound(p_partition, v_leased); -- NULL: nothing is leased
        v_aged := greatest(p_log_start, least(v_aged, v_leased));
        v_waited := greatest(p_log_start, least(v_waited, v_leased));
    ELSE
        v_aged := p_log_start; v_waited := p_log_start; v_completed := p_log_start;
    END IF;

    target := greatest(v_aged, v_waited, v_completed);
    completed := v_completed - p_log_start;
    aged := greatest(v_aged - v_completed, 0);
    evicted := target - greatest(v_aged, v_completed);
    unread := greatest(target - greatest(p_log_start, coalesce(v_floor, 0)), 0);
    SELECT s.created_at INTO oldest FROM queen.segments s
    WHERE s.partition_id = p_partition AND s.base_offset >= retention_target.target ORDER BY s.base_offset LIMIT 1;
    IF oldest < p_completed THEN
        held_by := v_holder;
    END IF;
    RETURN NEXT;
END
$$;
