-- resolve_transactions finds the lowest offset in p_first..p_last at which each transaction hash stands, from the dedup
-- rows.
--
-- Callers: ack, resolve_consumed.
-- Answer:  offsets in the order of p_hashes; NULL where the hash is NULL or not found.
-- Locks:   none.
--
-- In PL/pgSQL, which keeps the plan: a function in plain SQL that is called within an expression is planned by each call,
-- and that took longer than all else an ack does.
CREATE OR REPLACE FUNCTION queen.resolve_transactions(p_partition bigint, p_hashes uuid[], p_first bigint, p_last bigint)
RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    -- From the row that may hold p_first on.
    RETURN (
        WITH stored AS MATERIALIZED (
            SELECT o.hash, min(d.base_offset + o.place - 1) AS message_offset
            FROM queen.dedup d CROSS JOIN LATERAL unnest(d.hashes) WITH ORDINALITY AS o(hash, place)
            WHERE d.partition_id = p_partition AND d.base_offset <= p_last
              AND d.base_offset >= coalesce((SELECT b.base_offset FROM queen.dedup b
                                             WHERE b.partition_id = p_partition AND b.base_offset <= p_first ORDER BY b.base_offset DESC LIMIT 1), p_first)
              AND d.base_offset + o.place - 1 BETWEEN p_first AND p_last
              AND o.hash = ANY (p_hashes)
            GROUP BY o.hash
        )
        SELECT array_agg(s.message_offset ORDER BY h.place)
        FROM unnest(p_hashes) WITH ORDINALITY AS h(hash, place) LEFT JOIN stored s ON s.hash = h.hash);
END
$$;
