-- end_of_lease says until when a cursor's lease is live for a caller that takes p_now for the time; NULL without a lease.
--
-- Callers: whatever asks whether a lease is live.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.end_of_lease(p_cursor queen.cursors, p_now timestamptz)
RETURNS timestamptz
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_now < p_cursor.lease_leap_at AND p_cursor.lease_expires_at IS NOT NULL THEN p_cursor.lease_leap_end
                ELSE p_cursor.lease_expires_at END
$$;
