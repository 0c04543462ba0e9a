-- forget_spool removes notes of a spool that is empty and will never be read again, some at a time.
--
-- Callers: the append log's store, for ingest.
-- Answer:  how many were removed; call again until it is 0.
-- Locks:   the notes, which nobody else touches any more.
CREATE OR REPLACE FUNCTION queen.forget_spool(p_spool uuid, p_limit integer)
RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_removed integer;
BEGIN
    DELETE FROM queen.spool_marks m
    WHERE m.spool_id = p_spool AND m.partition_id IN (
        SELECT o.partition_id FROM queen.spool_marks o WHERE o.spool_id = p_spool ORDER BY o.partition_id LIMIT p_limit);
    GET DIAGNOSTICS v_removed = ROW_COUNT;
    RETURN v_removed;
END
$$;
