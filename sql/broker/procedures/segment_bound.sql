-- segment_bound is the highest offset up to p_offset at which a partition may be cut: segments are removed whole.
--
-- Callers: retention_target.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.segment_bound(p_partition bigint, p_offset bigint)
RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce((SELECT CASE WHEN s.end_offset >= p_offset THEN s.base_offset END
                     FROM (SELECT g.base_offset, g.end_offset FROM queen.segments g
                           WHERE g.partition_id = p_partition AND g.base_offset <= p_offset ORDER BY g.base_offset DESC LIMIT 1) s), p_offset);
END
$$;
