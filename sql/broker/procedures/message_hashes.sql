-- message_hashes reads the transaction hashes of single messages.
--
-- Callers: the inspection store.
-- Input:   per message its partition, the first offset of its run and its own.
-- Answer:  by place; what was removed meanwhile is absent.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.message_hashes(p_partitions bigint[], p_bases bigint[], p_offsets bigint[])
RETURNS TABLE (place integer, hash uuid)
LANGUAGE sql STABLE AS $$
    SELECT w.place::integer, d.hashes[w.message_offset - w.base + 1]
    FROM unnest(p_partitions, p_bases, p_offsets) WITH ORDINALITY AS w(partition_id, base, message_offset, place)
    JOIN queen.dedup d ON d.partition_id = w.partition_id AND d.base_offset = w.base
$$;
