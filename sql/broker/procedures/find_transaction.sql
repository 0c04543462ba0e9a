-- find_transaction looks for a transaction hash in a partition's hash rows, newest first, some rows at a time.
--
-- Callers: the inspection store, page after page.
-- Input:   rows that begin before p_before, at most p_rows of them.
-- Answer:  one row: the highest offset among these at which the hash stands, NULL for none; and where the next page ends,
--          NULL when there is none.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.find_transaction(p_partition bigint, p_hash uuid, p_before bigint, p_rows integer)
RETURNS TABLE (message_offset bigint, next_before bigint)
LANGUAGE sql STABLE AS $$
    WITH looked AS MATERIALIZED (
        SELECT d.base_offset, array_position(d.hashes, p_hash) AS place
        FROM queen.dedup d
        WHERE d.partition_id = p_partition AND d.base_offset < p_before
        ORDER BY d.base_offset DESC LIMIT p_rows
    )
    SELECT max(l.base_offset + l.place - 1), CASE WHEN count(*) = p_rows THEN min(l.base_offset) END FROM looked l
$$;
