-- recent_runs says which messages partitions have whose hashes are kept: runs of offsets that were committed together.
--
-- Callers: the inspection store.
-- Input:   those committed at or after p_from and before p_before, NULL for no such bound; at most p_limit runs of each partition, the newest.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.recent_runs(p_partitions bigint[], p_from timestamptz, p_before timestamptz, p_limit integer)
RETURNS TABLE (partition_id bigint, base_offset bigint, end_offset bigint, created_at timestamptz)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    FOR partition_id IN SELECT w FROM unnest(p_partitions) w LOOP
        RETURN QUERY
            SELECT d.partition_id, d.base_offset, d.end_offset, d.created_at
            FROM queen.dedup d
            WHERE d.partition_id = recent_runs.partition_id
              AND d.base_offset >= (SELECT queen.hashed_offset_at(recent_runs.partition_id, p_from))
              AND d.base_offset < (SELECT queen.hashed_offset_at(recent_runs.partition_id, coalesce(p_before, 'infinity')))
            ORDER BY d.base_offset DESC LIMIT p_limit;
    END LOOP;
END
$$;
