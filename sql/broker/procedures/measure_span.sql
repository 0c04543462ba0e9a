-- measure_span measures what may be claimed of a partition from p_first on: at most p_count messages' segments, as far as
-- they are old enough and fit into p_bytes.
--
-- Callers: claim, after it has locked the cursor.
-- Input:   p_whole lets the first segment fit whatever its size.
-- Answer:  one row: the last offset of the visible segments that fit, their bytes, base offsets and tags, NULL without any;
--          whether one is visible and does not fit; when the oldest was committed, NULL when there is none.
-- Locks:   none.
DROP FUNCTION IF EXISTS queen.measure_span(bigint, bigint, bigint, bigint, boolean, interval, timestamptz);
CREATE OR REPLACE FUNCTION queen.measure_span(
    p_partition bigint, p_first bigint, p_count bigint, p_bytes bigint, p_whole boolean, p_delay interval, p_now timestamptz)
RETURNS TABLE (visible_end bigint, bytes bigint, bases bigint[], tags bigint[], too_large boolean, oldest timestamptz)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_head record; -- the segment that holds p_first, or else one before it
BEGIN
    SELECT g.base_offset, g.end_offset, g.created_at, g.raw_bytes, g.tag INTO v_head
    FROM queen.segments g
    WHERE g.partition_id = p_partition AND g.base_offset <= p_first
    ORDER BY g.base_offset DESC LIMIT 1;

    IF v_head.end_offset >= p_first + p_count - 1 THEN -- nearly always, and then it is all there is to measure
        oldest := v_head.created_at;
        IF p_delay <> interval '0' AND oldest > p_now - p_delay THEN
            RETURN NEXT;
        ELSIF v_head.raw_bytes > p_bytes AND NOT p_whole THEN
            too_large := true; RETURN NEXT;
        ELSE
            visible_end := v_head.end_offset; bytes := v_head.raw_bytes; too_large := false;
            bases := ARRAY[v_head.base_offset]; tags := ARRAY[v_head.tag]; RETURN NEXT;
        END IF;
        RETURN;
    END IF;

    RETURN QUERY
        SELECT max(s.end_offset) FILTER (WHERE s.visible AND s.fits),
               (sum(s.raw_bytes) FILTER (WHERE s.visible AND s.fits))::bigint,
               array_agg(s.base_offset) FILTER (WHERE s.visible AND s.fits),
               array_agg(s.tag) FILTER (WHERE s.visible AND s.fits),
               bool_or(s.visible AND NOT s.fits),
               min(s.created_at)
        FROM (SELECT g.base_offset, g.end_offset, g.created_at, g.raw_bytes, g.tag,
                     p_delay = interval '0' OR g.created_at <= p_now - p_delay AS visible,
                     sum(g.raw_bytes) OVER (ORDER BY g.base_offset) <= p_bytes
                         OR p_whole AND row_number() OVER (ORDER BY g.base_offset) = 1 AS fits
              FROM queen.segments g
              WHERE g.partition_id = p_partition AND g.base_offset >= coalesce(v_head.base_offset, p_first) AND g.base_offset < p_first + p_count
                AND g.end_offset >= p_first
              ORDER BY g.base_offset LIMIT 10000) s; -- whatever the batch, so that no claim holds its locks for long
END
$$;
