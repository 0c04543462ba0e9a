-- drop_cursors removes up to p_limit cursors of an identity that has ended; see delete_group. Of one that exists, perhaps
-- because a failover has issued its number again, it removes nothing.
--
-- Callers: the group store, step after step.
-- Input:   p_after is the last partition of the step before, 0 for the first.
-- Answer:  one row: the last partition (NULL: there was none left) and how many cursors were removed.
-- Locks:   cursors by ascending partition.
CREATE OR REPLACE FUNCTION queen.drop_cursors(p_subscription bigint, p_after bigint, p_limit integer)
RETURNS TABLE (last_partition_id bigint, dropped integer)
LANGUAGE sql VOLATILE AS $$
    WITH doomed AS MATERIALIZED (
        SELECT c.partition_id FROM queen.cursors c
        WHERE c.subscription_id = p_subscription AND c.partition_id > p_after
          AND NOT EXISTS (SELECT FROM queen.subscriptions s WHERE s.id = p_subscription)
        ORDER BY c.subscription_id, c.partition_id LIMIT p_limit
        FOR UPDATE
    ), removed AS (
        DELETE FROM queen.cursors c USING doomed d
        WHERE c.subscription_id = p_subscription AND c.partition_id = d.partition_id
        RETURNING c.partition_id
    )
    SELECT max(r.partition_id), count(*)::integer FROM removed r
$$;
