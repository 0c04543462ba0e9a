-- append_spooled writes what lay in a spool, and notes of each partition up to which record that is done. Both or neither.
--
-- Callers: the append log (pkg/appendlog), nobody else.
-- Input:   p_targets, p_uids, p_firsts, p_lasts, p_ages_ms: one element per partition; which records of the spool come, by
--          their sequences, and how long ago the oldest of them was spooled. The rest is as in append; a partition without
--          segments has nothing left to append and is only noted.
-- Answer:  one row per partition, with the verdicts of append, all of which but 1 and 4 leave the note as it is, and
--            7 settled  the records up to base_offset are noted already
--            8 deleted  a queue of this name was deleted after the oldest record had been spooled
--            9 noted    there was nothing left to append
--          When there is a 7 or an 8, nothing was tried with the other partitions. Otherwise an absent one no longer exists.
-- Locks:   partition rows FOR NO KEY UPDATE by ascending id, then their notes, held to the end. The notes and the queues are
--          read by statements after the locking one.
CREATE OR REPLACE FUNCTION queen.append_spooled(
    p_spool uuid, p_targets bigint[], p_target_uids uuid[], p_firsts bigint[], p_lasts bigint[], p_ages_ms bigint[],
    p_partitions bigint[], p_uids uuid[], p_tags bigint[], p_counts integer[], p_raw_bytes integer[], p_codecs smallint[],
    p_payloads bytea[], p_hashes uuid[], p_check_tags boolean, p_sealed boolean[])
RETURNS TABLE (partition_id bigint, verdict smallint, base_offset bigint, created_at timestamptz, duplicate_positions integer[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_locked bigint[];
    v_noted  bigint[] := '{}';
    v_found  boolean := false;
BEGIN
    SELECT array_agg(l.id) INTO v_locked FROM (
        SELECT p.id FROM queen.partitions p WHERE p.id = ANY (p_targets) AND p.uid = ANY (p_target_uids) ORDER BY p.id FOR NO KEY UPDATE) l;
    IF v_locked IS NULL THEN
        RETURN;
    END IF;

    FOR partition_id, verdict, base_offset IN
        SELECT w.id, CASE WHEN m.sequence >= w.first THEN 7 ELSE 8 END, m.sequence
        FROM unnest(p_targets, p_firsts, p_ages_ms) AS w(id, first, age_ms)
        LEFT JOIN queen.spool_marks m ON m.spool_id = p_spool AND m.partition_id = w.id
        JOIN queen.partitions p ON p.id = w.id
        JOIN queen.queues q ON q.id = p.queue_id
        WHERE w.id = ANY (v_locked)
          AND (m.sequence >= w.first
               OR EXISTS (SELECT FROM queen.queues d WHERE d.tenant = q.tenant AND d.name = q.name
                          AND d.deleted_at > clock_timestamp() - w.age_ms * interval '1 millisecond'))
    LOOP
        v_found := true; RETURN NEXT;
    END LOOP;
    IF v_found THEN
        RETURN;
    END IF;

    FOR partition_id, verdict, base_offset, created_at, duplicate_positions IN
        SELECT a.partition_id, a.verdict, a.base_offset, a.created_at, a.duplicate_positions
        FROM queen.append(p_partitions, p_uids, p_tags, p_counts, p_raw_bytes, p_codecs, p_payloads, p_hashes, true, p_check_tags, p_sealed) a
    LOOP
        IF verdict IN (1, 4) THEN
            v_noted := v_noted || partition_id;
        END IF;
        RETURN NEXT;
    END LOOP;

    base_offset := NULL; created_at := NULL; duplicate_positions := NULL;
    FOR partition_id, base_offset IN
        SELECT w.id, w.last FROM unnest(p_targets, p_lasts) AS w(id, last) WHERE w.id = ANY (v_locked) AND w.id <> ALL (p_partitions)
    LOOP
        v_noted := v_noted || partition_id; verdict := 9; RETURN NEXT;
    END LOOP;

    INSERT INTO queen.spool_marks AS m (spool_id, partition_id, sequence)
    SELECT p_spool, w.id, w.last FROM unnest(p_targets, p_lasts) AS w(id, last) WHERE w.id = ANY (v_noted) ORDER BY w.id
    ON CONFLICT ON CONSTRAINT spool_marks_spool_id_partition_id_pkey DO UPDATE SET sequence = greatest(m.sequence, excluded.sequence);
END
$$;
