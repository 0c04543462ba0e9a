-- end_of_lease says until when a cursor's lease is live; NULL without a lease. What it answers is compared with
-- least(p_clock, p_cap).
--
-- Callers: whatever asks whether a lease is live.
-- Input:   what the clock shows, and p_cap, p_floor and p_settled as in claim.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.end_of_lease(p_cursor queen.cursors, p_clock timestamptz, p_cap timestamptz, p_floor timestamptz,
    p_settled boolean)
RETURNS timestamptz
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN p_cursor.lease_expires_at IS NULL THEN NULL
        WHEN least(p_clock, p_cap) < p_cursor.lease_leap_at THEN p_cursor.lease_leap_end
        -- The clock has fallen since the lease was given. Who has kept that time knows what has passed of it; who has been
        -- settled in another has seen the lease last long enough.
        WHEN p_clock < p_cursor.leased_at AND p_floor >= p_cursor.leased_at THEN least(p_clock, p_cap) + (p_cursor.lease_expires_at - p_floor)
        WHEN p_clock < p_cursor.leased_at AND p_settled AND p_cap < p_cursor.leased_at THEN p_clock
        ELSE p_cursor.lease_expires_at
    END
$$;
