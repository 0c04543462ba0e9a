-- dead_offsets says which of some messages are dead letters of any group.
--
-- Callers: the inspection store.
-- Input:   per message its partition and its offset.
-- Answer:  the places of those that are.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.dead_offsets(p_partitions bigint[], p_offsets bigint[])
RETURNS SETOF integer
LANGUAGE sql STABLE AS $$
    SELECT w.place::integer
    FROM unnest(p_partitions, p_offsets) WITH ORDINALITY AS w(partition_id, message_offset, place)
    WHERE EXISTS (SELECT FROM queen.dlq d WHERE d.partition_id = w.partition_id AND d.message_offset = w.message_offset)
$$;
