-- read_hashes reads the newest dedup rows of a partition, for a memory that vouches.
--
-- Callers: the log store.
-- Input:   rows above p_after (an offset) and younger than p_since, at most p_limit of them.
-- Answer:  newest first.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.read_hashes(p_partition bigint, p_after bigint, p_since timestamptz, p_limit integer)
RETURNS TABLE (base_offset bigint, end_offset bigint, created_at timestamptz, tag bigint, hashes uuid[])
LANGUAGE sql STABLE AS $$
    SELECT d.base_offset, d.end_offset, d.created_at, d.tag, d.hashes
    FROM queen.dedup d
    WHERE d.partition_id = p_partition AND d.base_offset > p_after AND d.created_at > p_since
    ORDER BY d.base_offset DESC
    LIMIT p_limit
$$;
