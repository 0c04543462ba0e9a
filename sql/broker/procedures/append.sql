-- append writes segments at the ends of their partitions: all segments of a partition, or none.
--
-- Callers: the append log (pkg/appendlog), nobody else.
-- Input:   one element per segment; a partition's segments stand together, in order, under one tag. p_hashes holds the
--          transaction hashes of all segments one after the other. Hashes of one partition are distinct.
--          p_wait false skips partitions whose row is locked, so that two writers do not queue up behind each other.
--          p_check_tags true: an earlier call with these tags may have committed; look for them first.
-- Answer:  one row per partition that was locked, so an absent one is busy (p_wait false) or no longer exists:
--            1 appended    first offset and time of the first segment
--            2 duplicates  nothing written; 1-based positions within the partition's messages, offsets of the originals
--            3 gone        the queue was deleted; nothing written
--            4 found       the tag is there already: first offset and time of that earlier append
-- Locks:   partition rows FOR NO KEY UPDATE by ascending id, held to the end. Offsets, duplicates and the clock are read
--          by statements after the locking one, so their snapshots include every earlier append of these partitions.
CREATE OR REPLACE FUNCTION queen.append(
    p_partitions bigint[], p_tags bigint[], p_counts integer[], p_raw_bytes integer[], p_codecs smallint[],
    p_payloads bytea[], p_hashes uuid[], p_wait boolean, p_check_tags boolean)
RETURNS TABLE (partition_id bigint, verdict smallint, base_offset bigint, created_at timestamptz,
               duplicate_positions integer[], duplicate_offsets bigint[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_locked bigint[];
    v_found  bigint[] := '{}';
    v_now    timestamptz;
BEGIN
    IF cardinality(p_hashes) <> (SELECT sum(n) FROM unnest(p_counts) n) THEN
        RAISE EXCEPTION 'append: counts and hashes disagree' USING ERRCODE = 'QU001';
    END IF;

    IF p_wait THEN
        SELECT array_agg(l.id) INTO v_locked FROM (
            SELECT p.id FROM queen.partitions p WHERE p.id = ANY (p_partitions) ORDER BY p.id FOR NO KEY UPDATE) l;
    ELSE
        SELECT array_agg(l.id) INTO v_locked FROM (
            SELECT p.id FROM queen.partitions p WHERE p.id = ANY (p_partitions) ORDER BY p.id FOR NO KEY UPDATE SKIP LOCKED) l;
    END IF;
    IF v_locked IS NULL THEN
        RETURN;
    END IF;
    v_now := clock_timestamp();

    IF p_check_tags THEN
        RETURN QUERY
            SELECT d.partition_id, 4::smallint, min(d.base_offset), min(d.created_at), NULL::integer[], NULL::bigint[]
            FROM unnest(p_partitions, p_tags) AS w(id, tag)
            JOIN queen.dedup d ON d.partition_id = w.id AND d.tag = w.tag
            WHERE w.id = ANY (v_locked)
            GROUP BY d.partition_id;
        SELECT coalesce(array_agg(DISTINCT d.partition_id), '{}') INTO v_found
        FROM unnest(p_partitions, p_tags) AS w(id, tag)
        JOIN queen.dedup d ON d.partition_id = w.id AND d.tag = w.tag
        WHERE w.id = ANY (v_locked);
    END IF;

    RETURN QUERY
        WITH given AS MATERIALIZED (
            SELECT w.place::integer, w.id, w.tag, w.n, w.raw_bytes, w.codec,
                   (sum(w.n) OVER (ORDER BY w.place) - w.n)::integer AS hashes_before,
                   (sum(w.n) OVER (PARTITION BY w.id ORDER BY w.place) - w.n)::integer AS messages_before,
                   (sum(w.n) OVER (PARTITION BY w.id))::integer AS total
            FROM unnest(p_partitions, p_tags, p_counts, p_raw_bytes, p_codecs) WITH ORDINALITY AS w(id, tag, n, raw_bytes, codec, place)
        ), target AS MATERIALIZED (
            SELECT p.id, q.deleted_at IS NULL AND q.id IS NOT NULL AS alive,
                   CASE WHEN q.dedup_window_seconds > 0 THEN v_now - make_interval(secs => q.dedup_window_seconds) END AS since
            FROM queen.partitions p LEFT JOIN queen.queues q ON q.id = p.queue_id
            WHERE p.id = ANY (v_locked) AND p.id <> ALL (v_found)
        ), hash AS MATERIALIZED (
            SELECT g.id, (g.messages_before + h.place)::integer AS position, h.hash
            FROM given g JOIN target t ON t.id = g.id AND t.alive AND t.since IS NOT NULL
            CROSS JOIN LATERAL unnest(p_hashes[g.hashes_before + 1:g.hashes_before + g.n]) WITH ORDINALITY AS h(hash, place)
        ), hit AS MATERIALIZED (
            -- A set operation hashes both sides whatever the planner believes of their sizes; hits are rare, so their
            -- positions are looked up only below.
            SELECT h.id, h.hash FROM hash h
            INTERSECT
            SELECT d.partition_id, unnest(d.hashes)
            FROM target t JOIN queen.dedup d ON d.partition_id = t.id AND d.created_at > t.since
        ), duplicate AS MATERIALIZED (
            SELECT h.id, h.position, max(d.base_offset + o.place - 1) AS original
            FROM hit JOIN target t ON t.id = hit.id
            JOIN hash h ON h.id = hit.id AND h.hash = hit.hash
            JOIN queen.dedup d ON d.partition_id = hit.id AND d.created_at > t.since AND d.hashes @> ARRAY[hit.hash]
            CROSS JOIN LATERAL unnest(d.hashes) WITH ORDINALITY AS o(hash, place)
            WHERE o.hash = hit.hash
            GROUP BY h.id, h.position
        ), clean AS MATERIALIZED (
            SELECT t.id FROM target t WHERE t.alive AND NOT EXISTS (SELECT FROM duplicate d WHERE d.id = t.id)
        ), allocated AS (
            UPDATE queen.partitions p
            SET last_offset = p.last_offset + g.total, last_tag = g.tag, last_created_at = greatest(v_now, p.last_created_at)
            FROM given g JOIN clean c ON c.id = g.id
            WHERE g.messages_before = 0 AND p.id = g.id
            RETURNING p.id, p.last_offset - g.total + 1 AS base, p.last_created_at AS created_at
        ), written AS (
            INSERT INTO queen.segments (partition_id, base_offset, end_offset, created_at, tag, raw_bytes, codec, payload)
            SELECT a.id, a.base + g.messages_before, a.base + g.messages_before + g.n - 1, a.created_at, g.tag, g.raw_bytes, g.codec, p_payloads[g.place]
            FROM allocated a JOIN given g ON g.id = a.id
        ), remembered AS (
            INSERT INTO queen.dedup (partition_id, base_offset, end_offset, created_at, tag, hashes)
            SELECT a.id, a.base + g.messages_before, a.base + g.messages_before + g.n - 1, a.created_at, g.tag, p_hashes[g.hashes_before + 1:g.hashes_before + g.n]
            FROM allocated a JOIN given g ON g.id = a.id
        )
        SELECT a.id, 1::smallint, a.base, a.created_at, NULL::integer[], NULL::bigint[] FROM allocated a
        UNION ALL
        SELECT d.id, 2::smallint, NULL, NULL, array_agg(d.position ORDER BY d.position), array_agg(d.original ORDER BY d.position)
        FROM duplicate d GROUP BY d.id
        UNION ALL
        SELECT t.id, 3::smallint, NULL, NULL, NULL, NULL FROM target t WHERE NOT t.alive;
END
$$;
