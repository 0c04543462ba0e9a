-- replay_dead_letter appends the message of a dead letter and removes the dead letter, both or neither.
--
-- Callers: the append log (pkg/appendlog), nobody else.
-- Input:   the dead letter; and the one segment, of one message, as in append. p_check_tag true: an earlier call with this
--          tag may have committed.
-- Answer:  one row, with the verdicts of append, where 1 appended and 4 found say that the dead letter has left, too, and
--            6 left already  there is no such dead letter of this tenant any more; nothing was appended
--          After 2, 3 and 5 it is still there. No row: the partition no longer exists.
-- Locks:   the partition row FOR NO KEY UPDATE, then the dead letter, held to the end. The dead letter is locked before
--          anything is written, so of two calls for one the second finds it gone and has nothing to take back.
DROP FUNCTION IF EXISTS queen.replay_dead_letter(uuid, uuid, bigint, uuid, bigint, integer, smallint, bytea, uuid, boolean, boolean,
    bigint, timestamptz, bigint, bigint, bigint);
CREATE OR REPLACE FUNCTION queen.replay_dead_letter(
    p_tenant uuid, p_dead_letter uuid, p_partition bigint, p_uid uuid, p_tag bigint, p_raw_bytes integer, p_codec smallint,
    p_payload bytea, p_hash uuid, p_sealed boolean, p_check_tag boolean,
    p_vouch_first bigint, p_vouch_since timestamptz, p_vouch_base bigint, p_vouch_last bigint, p_vouch_tag bigint)
RETURNS TABLE (verdict smallint, base_offset bigint, created_at timestamptz, duplicate_offset bigint, previous_tag bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_there boolean;
BEGIN
    PERFORM FROM queen.partitions p WHERE p.id = p_partition AND p.uid = p_uid FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM FROM queen.dlq d JOIN queen.queues q ON q.id = d.queue_id AND q.tenant = p_tenant AND q.deleted_at IS NULL
    WHERE d.id = p_dead_letter
    FOR UPDATE OF d;
    v_there := FOUND;

    IF NOT v_there THEN
        -- Maybe by that earlier call: its tag is looked for as append does it, under the partition's lock.
        IF p_check_tag THEN
            SELECT 4, min(t.base_offset), min(t.created_at) INTO verdict, base_offset, created_at
            FROM (SELECT d.base_offset, d.created_at FROM queen.dedup d WHERE d.partition_id = p_partition AND d.tag = p_tag
                  UNION ALL
                  SELECT g.base_offset, g.created_at FROM queen.segments g WHERE g.partition_id = p_partition AND g.tag = p_tag) t;
        END IF;
        IF base_offset IS NULL THEN
            verdict := 6;
        END IF;
        RETURN NEXT;
        RETURN;
    END IF;

    -- While it is there no call for it has committed, so append need not look for the tag.
    SELECT a.verdict, a.base_offset, a.created_at, a.duplicate_offsets[1], a.previous_tag
    INTO verdict, base_offset, created_at, duplicate_offset, previous_tag
    FROM queen.append(ARRAY[p_partition], ARRAY[p_uid], ARRAY[p_tag], ARRAY[1], ARRAY[p_raw_bytes], ARRAY[p_codec], ARRAY[p_payload],
        ARRAY[p_hash], true, false, ARRAY[p_sealed], ARRAY[p_vouch_first], ARRAY[p_vouch_since], ARRAY[p_vouch_base],
        ARRAY[p_vouch_last], ARRAY[p_vouch_tag]) a;
    IF verdict = 1 THEN
        DELETE FROM queen.dlq d WHERE d.id = p_dead_letter;
    END IF;
    RETURN NEXT;
END
$$;
