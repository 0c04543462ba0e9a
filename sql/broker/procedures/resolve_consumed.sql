-- resolve_consumed finds transaction hashes at or below a cursor. It looks from the cursor down, in steps that grow: what is
-- acked once more has mostly been consumed just now, and a partition may keep the hashes of millions of messages.
--
-- Callers: ack.
-- Input:   a hash for which p_known has an offset is not looked for.
-- Answer:  for each hash, in their order, an offset at which it stands; NULL where it was not found.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.resolve_consumed(p_partition bigint, p_hashes uuid[], p_known bigint[], p_committed bigint)
RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_wanted uuid[];
    v_found  bigint[];
    v_last   bigint := p_committed;
    v_width  bigint := 2000;
BEGIN
    SELECT array_agg(CASE WHEN w.known IS NULL THEN w.hash END ORDER BY w.place), array_agg(NULL::bigint) INTO v_wanted, v_found
    FROM unnest(p_hashes, p_known) WITH ORDINALITY AS w(hash, known, place);

    WHILE v_last >= 0 AND array_remove(v_wanted, NULL) <> '{}' LOOP
        SELECT array_agg(coalesce(w.found, w.here) ORDER BY w.place), array_agg(CASE WHEN w.here IS NULL THEN w.hash END ORDER BY w.place)
        INTO v_found, v_wanted
        FROM unnest(v_wanted, v_found, queen.resolve_transactions(p_partition, v_wanted, greatest(v_last - v_width + 1, 0), v_last))
            WITH ORDINALITY AS w(hash, found, here, place);
        v_last := v_last - v_width;
        v_width := v_width * 2;
    END LOOP;
    RETURN v_found;
END
$$;
