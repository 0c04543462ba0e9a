-- append writes segments at the ends of their partitions: all segments of a partition, or none.
--
-- Callers: the append log (pkg/appendlog), nobody else.
-- Input:   one element per segment; a partition's segments stand together, in order, under one tag. p_hashes holds the
--          transaction hashes of all segments one after the other. Hashes of one partition are distinct. p_uids are the
--          partitions' wire ids: after a failover that lost a partition, its number may stand for somebody else's.
--          p_wait false skips partitions whose row is locked, so that two writers do not queue up behind each other.
--          p_check_tags true: an earlier call with these tags may have committed; look for them first.
--          p_sealed says of each segment whether all its payloads are encrypted; NULL is false, and NULL for all of them
--          is a caller that does not know the verdict 5.
--          p_vouch_...: of each partition's first segment, a voucher as in find_duplicates; NULL for none.
-- Answer:  one row per partition that was locked, so an absent one is busy (p_wait false) or no longer exists:
--            1 appended    first offset and time of the first segment, and the tag of the append before it
--            2 duplicates  nothing written; 1-based positions within the partition's messages, offsets of the originals
--            3 gone        the queue was deleted; nothing written
--            4 found       the tag is there already: first offset and time of that earlier append
--            5 must seal   the queue has encryption on and a segment is not sealed; nothing written. Who does not know it
--                          gets 3, looks the partition up some more times and fails
-- Locks:   partition rows FOR NO KEY UPDATE by ascending id, and those of note_retained, held to the end. Offsets, duplicates
--          and the clock are read by statements after the locking one, so their snapshots include every earlier append of
--          these partitions. The queue's options are read by the statement that writes: what was answered before it began is
--          heeded.
DROP FUNCTION IF EXISTS queen.append(bigint[], uuid[], bigint[], integer[], integer[], smallint[], bytea[], uuid[], boolean, boolean);
DROP FUNCTION IF EXISTS queen.append(bigint[], uuid[], bigint[], integer[], integer[], smallint[], bytea[], uuid[], boolean, boolean,
    boolean[], bigint[], timestamptz[], bigint[], bigint[], bigint[]);
CREATE OR REPLACE FUNCTION queen.append(
    p_partitions bigint[], p_uids uuid[], p_tags bigint[], p_counts integer[], p_raw_bytes integer[], p_codecs smallint[],
    p_payloads bytea[], p_hashes uuid[], p_wait boolean, p_check_tags boolean, p_sealed boolean[] DEFAULT NULL,
    p_vouch_firsts bigint[] DEFAULT NULL, p_vouch_since timestamptz[] DEFAULT NULL, p_vouch_bases bigint[] DEFAULT NULL,
    p_vouch_lasts bigint[] DEFAULT NULL, p_vouch_tags bigint[] DEFAULT NULL)
RETURNS TABLE (partition_id bigint, verdict smallint, base_offset bigint, created_at timestamptz,
               duplicate_positions integer[], duplicate_offsets bigint[], previous_tag bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_locked   bigint[];
    v_woken    boolean;           -- one of them was empty or has been quiet: see queen.retained
    v_answered bigint[] := '{}';  -- found by their tags, or holding duplicates: nothing is written to them
    v_now      timestamptz;
BEGIN
    IF cardinality(p_hashes) <> (SELECT sum(n) FROM unnest(p_counts) n) THEN
        RAISE EXCEPTION 'append: counts and hashes disagree' USING ERRCODE = 'QU001';
    END IF;

    IF p_wait THEN
        SELECT array_agg(l.id), bool_or(l.woken) INTO v_locked, v_woken FROM (
            SELECT p.id, p.log_start > p.last_offset OR p.last_created_at < now() - interval '10 min' AS woken
            FROM queen.partitions p WHERE p.id = ANY (p_partitions) AND p.uid = ANY (p_uids) ORDER BY p.id FOR NO KEY UPDATE) l;
    ELSE
        SELECT array_agg(l.id), bool_or(l.woken) INTO v_locked, v_woken FROM (
            SELECT p.id, p.log_start > p.last_offset OR p.last_created_at < now() - interval '10 min' AS woken
            FROM queen.partitions p WHERE p.id = ANY (p_partitions) AND p.uid = ANY (p_uids) ORDER BY p.id FOR NO KEY UPDATE SKIP LOCKED) l;
    END IF;
    IF v_locked IS NULL THEN
        RETURN;
    END IF;
    v_now := clock_timestamp();
    IF v_woken THEN
        PERFORM queen.note_retained(v_locked, v_now);
    END IF;

    IF p_check_tags THEN
        -- Hashes and segments are removed on clocks of their own, so either may be what is left of the earlier attempt.
        FOR partition_id, base_offset, created_at IN
            SELECT t.partition_id, min(t.base_offset), min(t.created_at)
            FROM unnest(p_partitions, p_tags) AS w(id, tag)
            JOIN (SELECT d.partition_id, d.tag, d.base_offset, d.created_at FROM queen.dedup d
                  UNION ALL
                  SELECT g.partition_id, g.tag, g.base_offset, g.created_at FROM queen.segments g) t
                ON t.partition_id = w.id AND t.tag = w.tag
            WHERE w.id = ANY (v_locked)
            GROUP BY t.partition_id
        LOOP
            verdict := 4; v_answered := v_answered || partition_id; RETURN NEXT;
        END LOOP;
    END IF;

    -- Judged apart from the writing, so that no estimate of duplicates shapes the plan of that.
    base_offset := NULL; created_at := NULL;
    FOR partition_id, duplicate_positions, duplicate_offsets IN
        SELECT d.partition_id, d.message_positions, d.originals
        FROM queen.find_duplicates(p_partitions, p_counts, p_hashes, v_locked, v_now,
            p_vouch_firsts, p_vouch_since, p_vouch_bases, p_vouch_lasts, p_vouch_tags) d
        WHERE d.partition_id <> ALL (v_answered)
    LOOP
        verdict := 2; v_answered := v_answered || partition_id; RETURN NEXT;
    END LOOP;

    RETURN QUERY
        WITH given AS MATERIALIZED (
            SELECT w.place::integer, w.id, w.tag, w.n, w.raw_bytes, w.codec, w.sealed,
                   (sum(w.n) OVER (ORDER BY w.place) - w.n)::integer AS hashes_before,
                   (sum(w.n) OVER (PARTITION BY w.id ORDER BY w.place) - w.n)::integer AS messages_before,
                   (sum(w.n) OVER (PARTITION BY w.id))::integer AS total
            FROM unnest(p_partitions, p_tags, p_counts, p_raw_bytes, p_codecs, p_sealed) WITH ORDINALITY
                AS w(id, tag, n, raw_bytes, codec, sealed, place)
        ), target AS MATERIALIZED (
            SELECT p.id, p.last_tag, q.id IS NOT NULL AS alive,
                   q.encryption_enabled AND EXISTS (SELECT FROM given g WHERE g.id = p.id AND g.sealed IS NOT TRUE) AS refused
            FROM queen.partitions p LEFT JOIN queen.queues q ON q.id = p.queue_id AND q.deleted_at IS NULL
            WHERE p.id = ANY (v_locked) AND p.id <> ALL (v_answered)
        ), allocated AS (
            UPDATE queen.partitions p
            SET last_offset = p.last_offset + g.total, last_tag = g.tag, last_created_at = greatest(v_now, p.last_created_at)
            FROM given g JOIN target t ON t.id = g.id AND t.alive AND NOT t.refused
            WHERE g.messages_before = 0 AND p.id = g.id
            RETURNING p.id, p.last_offset - g.total + 1 AS base, p.last_created_at AS created_at, t.last_tag AS previous_tag
        ), written AS (
            INSERT INTO queen.segments (partition_id, base_offset, end_offset, created_at, tag, raw_bytes, codec, payload)
            SELECT a.id, a.base + g.messages_before, a.base + g.messages_before + g.n - 1, a.created_at, g.tag, g.raw_bytes, g.codec, p_payloads[g.place]
            FROM allocated a JOIN given g ON g.id = a.id
        ), remembered AS (
            INSERT INTO queen.dedup (partition_id, base_offset, end_offset, created_at, tag, hashes)
            SELECT a.id, a.base + g.messages_before, a.base + g.messages_before + g.n - 1, a.created_at, g.tag, p_hashes[g.hashes_before + 1:g.hashes_before + g.n]
            FROM allocated a JOIN given g ON g.id = a.id
        )
        SELECT a.id, 1::smallint, a.base, a.created_at, NULL::integer[], NULL::bigint[], a.previous_tag FROM allocated a
        UNION ALL
        SELECT t.id, (CASE WHEN t.alive AND p_sealed IS NOT NULL THEN 5 ELSE 3 END)::smallint, NULL, NULL, NULL, NULL, NULL
        FROM target t WHERE NOT t.alive OR t.refused;
END
$$;
