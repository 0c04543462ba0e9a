-- find_duplicates says which messages of an append stand in their partition already, within the queue's window.
--
-- Callers: append, with the rows of the judged partitions locked.
-- Input:   as in append; p_judged are the partitions to look at.
-- Answer:  one row per partition with duplicates: their positions in ascending order, and the offsets of the originals.
-- Locks:   none of its own.
CREATE OR REPLACE FUNCTION queen.find_duplicates(
    p_partitions bigint[], p_counts integer[], p_hashes uuid[], p_judged bigint[], p_now timestamptz)
RETURNS TABLE (partition_id bigint, message_positions integer[], originals bigint[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_windowed bigint[];
    v_since    timestamptz[];
    v_hit      bigint[];
BEGIN
    SELECT array_agg(p.id), array_agg(p_now - make_interval(secs => q.dedup_window_seconds)) INTO v_windowed, v_since
    FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id AND q.deleted_at IS NULL AND q.dedup_window_seconds > 0
    WHERE p.id = ANY (p_judged);

    -- A set operation hashes both sides, whatever the planner believes of their sizes.
    SELECT array_agg(DISTINCT hit.id) INTO v_hit
    FROM (SELECT h.partition_id AS id, h.hash FROM queen.place_hashes(p_partitions, p_counts, p_hashes) h
          INTERSECT
          SELECT d.partition_id, unnest(d.hashes)
          FROM unnest(v_windowed, v_since) AS w(id, since)
          JOIN queen.dedup d ON d.partition_id = w.id AND d.created_at > w.since) hit;
    IF v_hit IS NULL THEN
        RETURN;
    END IF;

    -- Duplicates are rare; only then is the window read once more, for where the originals stand.
    RETURN QUERY
        SELECT m.id, array_agg(m.given ORDER BY m.given), array_agg(m.original ORDER BY m.given)
        FROM (SELECT u.id, max(u.given) AS given, max(u.original) AS original
              FROM (SELECT h.partition_id AS id, h.hash, h.message_position AS given, NULL::bigint AS original
                    FROM queen.place_hashes(p_partitions, p_counts, p_hashes) h
                    WHERE h.partition_id = ANY (v_hit)
                    UNION ALL
                    SELECT d.partition_id, o.hash, NULL, d.base_offset + o.place - 1
                    FROM unnest(v_windowed, v_since) AS w(id, since)
                    JOIN queen.dedup d ON d.partition_id = w.id AND d.created_at > w.since
                    CROSS JOIN LATERAL unnest(d.hashes) WITH ORDINALITY AS o(hash, place)
                    WHERE w.id = ANY (v_hit)) u
              GROUP BY u.id, u.hash
              HAVING count(u.given) > 0 AND count(u.original) > 0) m
        GROUP BY m.id;
END
$$;
