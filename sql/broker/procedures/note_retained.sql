-- note_retained enters partitions that are about to store something after having stored nothing, or nothing for long, so that
-- whoever removes what is old finds them in time.
--
-- Callers: append, with the partitions locked, before it writes.
-- Input:   segments are all gone only where log_start is past last_offset, and dedup rows only after at least 900 s without
--          an append (remove_hashes), so an append that finds neither need not come here.
-- Locks:   rows of queen.retained by ascending partition, held to the end. Where remove_hashes is about to find that there is
--          nothing, one waits for the other, and either order is right: it locks before it looks.
CREATE OR REPLACE FUNCTION queen.note_retained(p_partitions bigint[], p_now timestamptz)
RETURNS void
LANGUAGE sql VOLATILE AS $$
    INSERT INTO queen.retained AS r (partition_id, queue_id, segments_since, hashes_since)
    SELECT p.id, p.queue_id, p_now, p_now FROM queen.partitions p
    WHERE p.id = ANY (p_partitions) AND (p.log_start > p.last_offset OR p.last_created_at < p_now - interval '10 min')
    ORDER BY p.id
    ON CONFLICT ON CONSTRAINT retained_partition_id_pkey DO UPDATE
        SET segments_since = coalesce(r.segments_since, excluded.segments_since), hashes_since = coalesce(r.hashes_since, excluded.hashes_since)
        WHERE r.segments_since IS NULL OR r.hashes_since IS NULL
$$;
