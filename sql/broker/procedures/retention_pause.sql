-- retention_pause is how long a partition is left alone whose oldest segment is due and must stay, because of a group or of a
-- lease: half of the time for which it has been due, so that each look is half as long again after the one before, between
-- one second and ten minutes; and no longer than until another rule may reach the segment.
--
-- Callers: cut_logs.
-- Input:   how long it has been due; and until when it is not due by each rule, negative or NULL for one that does not count.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.retention_pause(p_due interval, p_left interval, p_left2 interval, p_left3 interval)
RETURNS interval
LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest(least(p_due / 2, interval '10 min', CASE WHEN p_left > interval '0' THEN p_left END,
        CASE WHEN p_left2 > interval '0' THEN p_left2 END, CASE WHEN p_left3 > interval '0' THEN p_left3 END), interval '1 s')
$$;
