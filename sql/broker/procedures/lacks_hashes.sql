-- lacks_hashes says whether dedup rows are missing for some of the offsets p_first..p_last, so that a hash
-- that was not found there may stand there all the same.
--
-- Callers: ack.
-- Locks:   none.
--
-- In PL/pgSQL for the reason given in resolve_transactions.
CREATE OR REPLACE FUNCTION queen.lacks_hashes(p_partition bigint, p_first bigint, p_last bigint)
RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT coalesce(sum(least(d.end_offset, p_last) - greatest(d.base_offset, p_first) + 1), 0) < p_last - p_first + 1
        FROM queen.dedup d
        WHERE d.partition_id = p_partition AND d.base_offset <= p_last AND d.end_offset >= p_first
          AND d.base_offset >= coalesce((SELECT b.base_offset FROM queen.dedup b
                                         WHERE b.partition_id = p_partition AND b.base_offset <= p_first ORDER BY b.base_offset DESC LIMIT 1), p_first));
END
$$;
