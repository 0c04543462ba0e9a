-- offset_at is where the first segment of a partition begins that was committed at or after p_from; NULL when there is none.
--
-- Callers: place_cursor, start_offset.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.offset_at(p_partition bigint, p_from timestamptz)
RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_segment record;
    v_low     bigint; -- what begins below it is older than p_from
    v_found   bigint; -- a segment that is not begins here
    v_middle  bigint;
BEGIN
    SELECT s.base_offset, s.end_offset, s.created_at INTO v_segment
    FROM queen.segments s WHERE s.partition_id = p_partition
    ORDER BY s.base_offset DESC LIMIT 1;
    IF NOT FOUND OR v_segment.created_at < p_from THEN
        RETURN NULL;
    END IF;
    v_found := v_segment.base_offset;

    SELECT s.base_offset, s.end_offset, s.created_at INTO v_segment
    FROM queen.segments s WHERE s.partition_id = p_partition
    ORDER BY s.base_offset LIMIT 1;
    IF v_segment.created_at >= p_from THEN
        RETURN v_segment.base_offset;
    END IF;
    v_low := v_segment.end_offset + 1;

    -- Within a partition the order of offsets is that of times, and no index knows the times: segments are wide, so a walk
    -- over them would read the whole log. Halving looks at about twenty.
    WHILE v_low < v_found LOOP
        v_middle := (v_low + v_found) / 2;
        SELECT s.base_offset, s.end_offset, s.created_at INTO v_segment
        FROM queen.segments s WHERE s.partition_id = p_partition AND s.base_offset BETWEEN v_low AND v_middle
        ORDER BY s.base_offset DESC LIMIT 1;
        IF NOT FOUND THEN
            v_low := v_middle + 1;
        ELSIF v_segment.created_at >= p_from THEN
            v_found := v_segment.base_offset;
        ELSE
            v_low := v_segment.end_offset + 1;
        END IF;
    END LOOP;
    RETURN v_found;
END
$$;
