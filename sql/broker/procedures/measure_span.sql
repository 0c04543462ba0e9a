-- measure_span measures what may be claimed of a partition from p_first on: at most p_count messages' segments, as far as
-- they are old enough and fit into p_bytes.
--
-- Callers: claim, after it has locked the cursor.
-- Input:   p_whole lets the first segment fit whatever its size.
-- Answer:  one row: the last offset of the visible segments that fit and their bytes, NULL without any; whether one is
--          visible and does not fit; when the oldest was committed, NULL when there is none.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.measure_span(
    p_partition bigint, p_first bigint, p_count bigint, p_bytes bigint, p_whole boolean, p_delay interval, p_now timestamptz)
RETURNS TABLE (visible_end bigint, bytes bigint, too_large boolean, oldest timestamptz)
LANGUAGE sql STABLE AS $$
    -- At most a thousand messages a segment: the one that holds p_first begins less than that before it.
    SELECT max(s.end_offset) FILTER (WHERE s.visible AND s.fits),
           sum(s.raw_bytes) FILTER (WHERE s.visible AND s.fits),
           bool_or(s.visible AND NOT s.fits),
           min(s.created_at)
    FROM (SELECT g.end_offset, g.created_at, g.raw_bytes,
                 p_delay = interval '0' OR g.created_at <= p_now - p_delay AS visible,
                 sum(g.raw_bytes) OVER (ORDER BY g.base_offset) <= p_bytes
                     OR p_whole AND row_number() OVER (ORDER BY g.base_offset) = 1 AS fits
          FROM queen.segments g
          WHERE g.partition_id = p_partition AND g.base_offset > p_first - 1000 AND g.base_offset < p_first + p_count
            AND g.end_offset >= p_first
          ORDER BY g.base_offset LIMIT 10000) s -- whatever the batch, so that no claim holds its locks for long
$$;
