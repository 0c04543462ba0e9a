-- find_duplicates says which messages of an append stand in their partition already, within the queue's window.
--
-- Callers: append, with the rows of the judged partitions locked.
-- Input:   as in append; p_judged are the partitions to look at.
--          A voucher says, of the messages at p_vouch_firsts..p_vouch_lasts, that none of the append's is among them; the
--          first of them was committed at p_vouch_since. It is believed only if the dedup row at p_vouch_bases ends at
--          p_vouch_lasts and carries p_vouch_tags, so one from before a failover that lost that row is worth nothing.
-- Answer:  one row per partition with duplicates: their positions in ascending order, and the offsets of the originals.
-- Locks:   none of its own.
CREATE OR REPLACE FUNCTION queen.find_duplicates(
    p_partitions bigint[], p_counts integer[], p_hashes uuid[], p_judged bigint[], p_now timestamptz,
    p_vouch_firsts bigint[], p_vouch_since timestamptz[], p_vouch_bases bigint[], p_vouch_lasts bigint[], p_vouch_tags bigint[])
RETURNS TABLE (partition_id bigint, message_positions integer[], originals bigint[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_windowed bigint[];
    v_since    timestamptz[];
    v_above    bigint[];  -- rows from here on were not vouched for
    v_below    bigint[];  -- nor those before this, 0 for none
    v_hit      bigint[];
BEGIN
    SELECT array_agg(w.id), array_agg(w.since), array_agg(coalesce(w.last, -1)),
           array_agg(CASE WHEN w.vouched_since > w.since THEN w.first ELSE 0 END)
    INTO v_windowed, v_since, v_above, v_below
    FROM (SELECT DISTINCT ON (p.id) p.id, p_now - make_interval(secs => p.seconds) AS since, v.first, v.since AS vouched_since, v.last
          FROM (SELECT j.id, (SELECT q.dedup_window_seconds FROM queen.queues q WHERE q.id = j.queue_id AND q.deleted_at IS NULL) AS seconds
                FROM queen.partitions j WHERE j.id = ANY (p_judged)) p -- not a join, which could begin at the queue
          LEFT JOIN (SELECT g.* FROM unnest(p_partitions, p_vouch_firsts, p_vouch_since, p_vouch_bases, p_vouch_lasts, p_vouch_tags)
                         AS g(id, first, since, base, last, tag)
                     JOIN queen.dedup d ON d.partition_id = g.id AND d.base_offset = g.base AND d.end_offset = g.last AND d.tag = g.tag) v
              ON v.id = p.id
          WHERE p.seconds > 0) w;

    -- A set operation hashes both sides, whatever the planner believes of their sizes.
    SELECT array_agg(DISTINCT hit.id) INTO v_hit
    FROM (SELECT h.partition_id AS id, h.hash FROM queen.place_hashes(p_partitions, p_counts, p_hashes) h
          INTERSECT
          SELECT d.partition_id, d.hash FROM queen.window_hashes(v_windowed, v_since, v_above, v_below) d) hit;
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
                    SELECT d.partition_id, d.hash, NULL, d.message_offset
                    FROM queen.window_hashes(v_windowed, v_since, v_above, v_below) d
                    WHERE d.partition_id = ANY (v_hit)) u
              GROUP BY u.id, u.hash
              HAVING count(u.given) > 0 AND count(u.original) > 0) m
        GROUP BY m.id;
END
$$;
