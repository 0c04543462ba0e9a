-- read_segments reads the segments that hold the offsets first..last of each span, border segments whole.
--
-- Callers: the log store.
-- Answer:  in the order of the spans (place) and of offsets. What retention removed is absent.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.read_segments(p_partitions bigint[], p_firsts bigint[], p_lasts bigint[])
RETURNS TABLE (place integer, base_offset bigint, end_offset bigint, created_at timestamptz, tag bigint, raw_bytes integer,
               codec smallint, payload bytea)
LANGUAGE sql STABLE AS $$
    SELECT w.place::integer, s.base_offset, s.end_offset, s.created_at, s.tag, s.raw_bytes, s.codec, s.payload
    FROM unnest(p_partitions, p_firsts, p_lasts) WITH ORDINALITY AS w(partition_id, first, last, place)
    -- From the segment that may hold the first offset on.
    LEFT JOIN LATERAL (SELECT b.base_offset FROM queen.segments b
                       WHERE b.partition_id = w.partition_id AND b.base_offset <= w.first ORDER BY b.base_offset DESC LIMIT 1) h ON true
    JOIN queen.segments s ON s.partition_id = w.partition_id
        AND s.base_offset >= coalesce(h.base_offset, w.first) AND s.base_offset <= w.last AND s.end_offset >= w.first
    ORDER BY w.place, s.base_offset
$$;
