-- read_switches says which switches of the cell are on.
--
-- Callers: the state store, often; offer_switch.
-- Answer:  a row per key that was ever set. A value that is not understood counts as off.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.read_switches(p_keys text[])
RETURNS TABLE (key text, is_enabled boolean, version bigint)
LANGUAGE sql VOLATILE AS $$
    SELECT s.key, coalesce(s.value -> 'enabled' = 'true'::jsonb, false), s.version
    FROM queen.system_state s WHERE s.key = ANY (p_keys)
$$;
