-- hashed_offset_at is the first offset of a partition's hash rows that was committed at or after a time, and the offset behind the
-- last one when none was. Times ascend with offsets, so it is found by halving: about 20 look-ups in a million rows.
--
-- Callers: recent_runs.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.hashed_offset_at(p_partition bigint, p_time timestamptz)
RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_low  bigint;
    v_high bigint;
    v_last timestamptz;
    v_row  record;
BEGIN
    SELECT p.log_start, p.last_offset + 1, p.last_created_at INTO v_low, v_high, v_last FROM queen.partitions p WHERE p.id = p_partition;
    IF v_last < p_time THEN
        RETURN v_high;
    END IF;
    -- log_start may be behind the first hash row, which has a clock of its own.
    v_low := least(v_low, (SELECT d.base_offset FROM queen.dedup d WHERE d.partition_id = p_partition ORDER BY d.base_offset LIMIT 1));
    WHILE v_low < v_high LOOP
        SELECT d.base_offset, d.end_offset, d.created_at INTO v_row FROM queen.dedup d
        WHERE d.partition_id = p_partition AND d.base_offset <= (v_low + v_high) / 2
        ORDER BY d.base_offset DESC LIMIT 1;
        IF NOT FOUND THEN
            v_low := (v_low + v_high) / 2 + 1;
        ELSIF v_row.created_at >= p_time THEN
            v_high := v_row.base_offset;
        ELSE
            v_low := greatest(v_row.end_offset, (v_low + v_high) / 2) + 1;
        END IF;
    END LOOP;
    RETURN v_high;
END
$$;
