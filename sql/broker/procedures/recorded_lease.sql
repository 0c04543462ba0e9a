-- recorded_lease is the lease under which an ack is made that does not say which: the one that the cursor has on record.
-- With p_accepted it must be among these; or else the last one completed must be, whose completions may be repeated. When
-- neither is, it is the all-zero one, which nobody holds.
--
-- Callers: ack, with the cursor locked.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.recorded_lease(p_cursor queen.cursors, p_accepted uuid[])
RETURNS uuid
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_accepted IS NULL OR (p_cursor).lease_id = ANY (p_accepted) THEN (p_cursor).lease_id
                WHEN (p_cursor).completed_lease_id = ANY (p_accepted) THEN (p_cursor).completed_lease_id
                ELSE '00000000-0000-0000-0000-000000000000' END
$$;
