-- judge_acks weighs the items of one ack against each other.
--
-- Callers: ack.
-- Input:   one element per item: its signal, the offset at which its message stands past the cursor, and the one at or
--          below it; both NULL when it was not found. p_live: the call may move the cursor.
-- Answer:  one row: the outcome of each item as ack answers it; the lowest offset that was not completed and the gravest
--          signal there, NULL when all were; the highest completed offset below it, NULL when there is none.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.judge_acks(p_signals smallint[], p_above bigint[], p_below bigint[], p_live boolean)
RETURNS TABLE (item_outcomes smallint[], stop_offset bigint, stop_signal smallint, completed_offset bigint)
LANGUAGE sql IMMUTABLE AS $$
    WITH item AS (
        SELECT i.place, i.signal, i.above,
               CASE WHEN i.above IS NOT NULL THEN CASE WHEN p_live THEN 0 ELSE 4 END
                    WHEN i.below IS NULL THEN CASE WHEN p_live THEN 3 ELSE 4 END
                    WHEN i.signal = 0 THEN 1 ELSE 2 END::smallint AS outcome
        FROM unnest(p_signals, p_above, p_below) WITH ORDINALITY AS i(signal, above, below, place)
    ), stop AS (
        SELECT i.above, i.signal FROM item i
        WHERE i.outcome = 0 AND i.signal > 0
        ORDER BY i.above, i.signal DESC LIMIT 1
    )
    SELECT (SELECT array_agg(i.outcome ORDER BY i.place) FROM item i),
           (SELECT s.above FROM stop s),
           (SELECT s.signal FROM stop s),
           (SELECT max(i.above) FROM item i
            WHERE i.outcome = 0 AND i.signal = 0 AND i.above < coalesce((SELECT s.above FROM stop s), 9223372036854775807))
$$;
