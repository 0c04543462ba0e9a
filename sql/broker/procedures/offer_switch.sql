-- offer_switch turns a switch of the cell on or off, unless somebody has turned it later. Repeating an offer changes nothing.
--
-- Callers: the state store.
-- Input:   p_version is the caller's: higher than every one it has heard of.
-- Answer:  what holds now: the offer, or what was later.
-- Locks:   the row of the key, and nothing else.
CREATE OR REPLACE FUNCTION queen.offer_switch(p_key text, p_enabled boolean, p_version bigint)
RETURNS TABLE (is_enabled boolean, at_version bigint)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO queen.system_state AS s (key, value, version, updated_at)
    VALUES (p_key, jsonb_build_object('enabled', p_enabled), p_version, clock_timestamp())
    ON CONFLICT ON CONSTRAINT system_state_key_pkey DO UPDATE
        SET value = EXCLUDED.value, version = EXCLUDED.version, updated_at = EXCLUDED.updated_at
        WHERE s.version < EXCLUDED.version;
    RETURN QUERY SELECT r.is_enabled, r.version FROM queen.read_switches(ARRAY[p_key]) r;
END
$$;
