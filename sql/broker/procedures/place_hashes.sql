-- place_hashes spreads the hashes of an append over its messages: for each one the partition and the 1-based position
-- among the partition's messages. Arguments as in append.
--
-- Callers: find_duplicates.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.place_hashes(p_partitions bigint[], p_counts integer[], p_hashes uuid[])
RETURNS TABLE (partition_id bigint, message_position integer, hash uuid)
LANGUAGE sql STABLE AS $$
    SELECT g.id, (g.messages_before + h.place)::integer, h.hash
    FROM (SELECT w.id, w.n,
                 (sum(w.n) OVER (ORDER BY w.place) - w.n)::integer AS hashes_before,
                 (sum(w.n) OVER (PARTITION BY w.id ORDER BY w.place) - w.n)::integer AS messages_before
          FROM unnest(p_partitions, p_counts) WITH ORDINALITY AS w(id, n, place)) g
    CROSS JOIN LATERAL unnest(p_hashes[g.hashes_before + 1:g.hashes_before + g.n]) WITH ORDINALITY AS h(hash, place)
$$;
