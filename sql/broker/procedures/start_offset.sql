-- start_offset is the cursor a group gets in a partition that it has not touched: -1 for 'all', the end for 'new', and
-- for 'from' the offset before the first segment committed at or after p_from, or the end when there is none.
--
-- Callers: seed_page, absent_cursor, pin.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.start_offset(p_partition bigint, p_last_offset bigint, p_mode text, p_from timestamptz)
RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT CASE p_mode
        WHEN 'new' THEN p_last_offset
        WHEN 'from' THEN coalesce(queen.offset_at(p_partition, p_from) - 1, p_last_offset)
        ELSE -1
    END
$$;
