-- purge_dead_letters removes dead letters of a queue, oldest first, some at a time, so that no call works for long.
--
-- Callers: the dead letter store, again and again until nothing is left.
-- Input:   p_group NULL: those of all groups. p_until NULL: those filed until now; the further calls of one purge give what
--          the first answered, so that it ends although more are filed meanwhile.
-- Answer:  one row: how many were removed, until when, and whether to call again. A queue that does not exist has none.
-- Locks:   dead letters by ascending id, held to the end.
CREATE OR REPLACE FUNCTION queen.purge_dead_letters(
    p_tenant uuid, p_queue text, p_group text, p_until timestamptz, p_limit integer)
RETURNS TABLE (removed integer, until timestamptz, more boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_queue bigint;
    v_ids   uuid[];
BEGIN
    until := coalesce(p_until, clock_timestamp());
    SELECT q.id INTO v_queue FROM queen.queues q WHERE q.tenant = p_tenant AND q.name = p_queue AND q.deleted_at IS NULL;
    IF p_group IS NULL THEN
        SELECT array_agg(o.id) INTO v_ids FROM (
            SELECT d.id FROM queen.dlq d WHERE d.queue_id = v_queue AND d.failed_at <= purge_dead_letters.until
            ORDER BY d.failed_at, d.id DESC LIMIT p_limit) o;
    ELSE
        SELECT array_agg(o.id) INTO v_ids FROM (
            SELECT d.id FROM queen.dlq d WHERE d.queue_id = v_queue AND d.group_name = p_group AND d.failed_at <= purge_dead_letters.until
            ORDER BY d.failed_at, d.id DESC LIMIT p_limit) o;
    END IF;
    -- In one order, so that two purges, or a purge and a removal by address, wait for each other in turn.
    PERFORM FROM queen.dlq d WHERE d.id = ANY (v_ids) ORDER BY d.id FOR UPDATE;
    DELETE FROM queen.dlq d WHERE d.id = ANY (v_ids);
    GET DIAGNOSTICS removed = ROW_COUNT;
    more := coalesce(cardinality(v_ids) = p_limit, false);
    RETURN NEXT;
END
$$;
