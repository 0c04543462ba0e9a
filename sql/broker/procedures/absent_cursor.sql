-- absent_cursor is the offset that a registered group's missing cursor stands for: -1, the start. Where the registration is
-- not at its end it is, for a partition that it has still to reach, what the group would get there now; nothing may be
-- claimed from there.
--
-- Callers: depth, group_positions, pin.
-- Input:   the group's columns of these names.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.absent_cursor(
    p_partition bigint, p_last_offset bigint, p_newest_partition_id bigint, p_seeding_after bigint, p_seeding_from timestamptz)
RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_partition > p_seeding_after AND p_partition <= p_newest_partition_id THEN
        RETURN queen.start_offset(p_partition, p_last_offset, CASE WHEN p_seeding_from IS NULL THEN 'new' ELSE 'from' END, p_seeding_from);
    END IF;
    RETURN -1;
END
$$;
