-- is_exhausted says whether a group has been given the message at p_first, the next after its cursor, as often as the
-- queue allows (p_limit, 0: any number of times). It must have been alone the last time: with others beside it nobody
-- knows which of them the consumers died of.
--
-- Callers: claim, dead_letter_heads, with the cursor locked and no lease live.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.is_exhausted(p_cursor queen.cursors, p_first bigint, p_limit integer)
RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT (p_limit > 0 AND p_cursor.head_offset = p_first AND p_cursor.attempt >= p_limit AND p_cursor.alone > 0) IS TRUE
$$;
