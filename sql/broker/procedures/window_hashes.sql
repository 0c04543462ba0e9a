-- window_hashes is the hashes, with their offsets, of the dedup rows that an append must look at: of each partition those
-- younger than p_since whose base offset is above p_above or below p_below.
--
-- Callers: find_duplicates.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.window_hashes(p_partitions bigint[], p_since timestamptz[], p_above bigint[], p_below bigint[])
RETURNS TABLE (partition_id bigint, hash uuid, message_offset bigint)
LANGUAGE sql STABLE AS $$
    SELECT d.partition_id, o.hash, d.base_offset + o.place - 1
    FROM (SELECT d.partition_id, d.base_offset, d.hashes
          FROM unnest(p_partitions, p_since, p_above) AS w(id, since, above)
          JOIN queen.dedup d ON d.partition_id = w.id AND d.base_offset > w.above AND d.created_at > w.since
          UNION ALL
          SELECT d.partition_id, d.base_offset, d.hashes
          FROM unnest(p_partitions, p_since, p_below) AS w(id, since, below)
          JOIN queen.dedup d ON d.partition_id = w.id AND d.base_offset < w.below AND d.created_at > w.since) d
    CROSS JOIN LATERAL unnest(d.hashes) WITH ORDINALITY AS o(hash, place)
$$;
