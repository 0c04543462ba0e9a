-- unhashed_segments reads segments that are older than the hashes their partition has, newest first.
--
-- Callers: the inspection store, page after page.
-- Input:   segments that begin before p_before, at most p_rows of them, and no more than p_max_bytes before compression;
--          the first one is given whatever its size.
-- Answer:  in descending order of offset. Hash rows are removed from the old end, so what is older than the first has none.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.unhashed_segments(p_partition bigint, p_before bigint, p_rows integer, p_max_bytes bigint)
RETURNS TABLE (base_offset bigint, end_offset bigint, created_at timestamptz, tag bigint, raw_bytes integer, codec smallint, payload bytea)
LANGUAGE sql STABLE AS $$
    WITH sized AS MATERIALIZED (
        SELECT s.base_offset, s.raw_bytes FROM queen.segments s
        WHERE s.partition_id = p_partition AND s.base_offset < least(p_before,
            (SELECT d.base_offset FROM queen.dedup d WHERE d.partition_id = p_partition ORDER BY d.base_offset LIMIT 1))
        ORDER BY s.base_offset DESC LIMIT p_rows
    ), chosen AS (
        SELECT c.base_offset FROM (
            SELECT z.base_offset, sum(z.raw_bytes) OVER (ORDER BY z.base_offset DESC) AS total, row_number() OVER (ORDER BY z.base_offset DESC) AS place
            FROM sized z) c
        WHERE c.place = 1 OR c.total <= p_max_bytes
    )
    SELECT s.base_offset, s.end_offset, s.created_at, s.tag, s.raw_bytes, s.codec, s.payload
    FROM chosen c JOIN queen.segments s ON s.partition_id = p_partition AND s.base_offset = c.base_offset
    ORDER BY s.base_offset DESC
$$;
