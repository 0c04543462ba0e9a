-- depth counts what a group, or the slowest one, has not consumed yet in the next p_limit partitions of a queue.
--
-- Callers: the group store, page after page.
-- Input:   p_group NULL asks, for each partition, for the named group that is furthest behind; where no named group is
--          known, for those that pop without a group. A registered group without a cursor stands at its seed.
--          p_after is the last partition of the page before, 0 for the first; p_listed is how many are told one by one.
-- Answer:  one row; no row when there is no such queue. last_partition_id is NULL when no partition was left. The arrays
--          are the first partitions of the page. pending counts leased messages, processing those under a live lease.
-- Locks:   none.
CREATE OR REPLACE FUNCTION queen.depth(p_tenant uuid, p_queue text, p_group text, p_after bigint, p_limit integer, p_listed integer)
RETURNS TABLE (last_partition_id bigint, partitions integer, pending bigint, processing bigint, partitions_pending integer,
               partitions_ready integer, names text[], pendings bigint[], processings bigint[])
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_queue_id bigint;
    v_ids      bigint[];
    v_known    boolean[]; -- the group is registered, so a missing cursor stands for its start
    v_named    boolean[];
    v_newest   bigint[];
    v_after    bigint[];
    v_from     timestamptz[];
    v_now      timestamptz := clock_timestamp();
BEGIN
    SELECT q.id INTO v_queue_id FROM queen.queues q
    WHERE q.tenant = p_tenant AND q.name = p_queue AND q.deleted_at IS NULL;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT array_agg(s.id), array_agg(s.registered_at IS NOT NULL), array_agg(s.group_name <> '__QUEUE_MODE__'),
           array_agg(s.newest_partition_id), array_agg(s.seeding_after), array_agg(s.seeding_from)
    INTO v_ids, v_known, v_named, v_newest, v_after, v_from
    FROM queen.subscriptions s
    WHERE s.queue_id = v_queue_id AND (p_group IS NULL OR s.group_name = p_group);

    -- The look-up of a cursor has a limit, so that it is made row by row, whatever the plan's estimates are.
    RETURN QUERY
        WITH page AS MATERIALIZED (
            SELECT p.id, p.name, p.last_offset, p.log_start - 1 AS before_log
            FROM queen.partitions p
            WHERE p.queue_id = v_queue_id AND p.id > p_after
            ORDER BY p.queue_id, p.id LIMIT p_limit
        ), counted AS (
            SELECT p.id, p.name, row_number() OVER (ORDER BY p.id) AS place,
                   greatest(p.last_offset - greatest(g.committed, p.before_log), 0) AS pending,
                   CASE WHEN g.leased_end IS NULL THEN 0
                        ELSE greatest(least(g.leased_end, p.last_offset) - greatest(g.committed, p.before_log), 0) END AS processing
            FROM page p LEFT JOIN LATERAL (
                SELECT coalesce(c.committed, queen.absent_cursor(p.id, p.last_offset, s.newest, s.after, s.since)) AS committed,
                       CASE WHEN c.ends > v_now THEN c.batch_end END AS leased_end
                FROM unnest(v_ids, v_known, v_named, v_newest, v_after, v_from) AS s(id, known, named, newest, after, since)
                LEFT JOIN LATERAL (SELECT c.committed, queen.end_of_lease(c, v_now, NULL, NULL, false) AS ends, c.batch_end FROM queen.cursors c
                                   WHERE c.subscription_id = s.id AND c.partition_id = p.id LIMIT 1) c ON true
                WHERE s.known OR c.committed IS NOT NULL
                ORDER BY s.named DESC, 1, 2 NULLS FIRST LIMIT 1) g ON true
        )
        SELECT max(c.id), count(*)::integer, coalesce(sum(c.pending), 0)::bigint, coalesce(sum(c.processing), 0)::bigint,
               (count(*) FILTER (WHERE c.pending > 0))::integer,
               (count(*) FILTER (WHERE c.pending > c.processing))::integer,
               coalesce(array_agg(c.name ORDER BY c.id) FILTER (WHERE c.place <= p_listed), '{}'),
               coalesce(array_agg(c.pending ORDER BY c.id) FILTER (WHERE c.place <= p_listed), '{}'),
               coalesce(array_agg(c.processing ORDER BY c.id) FILTER (WHERE c.place <= p_listed), '{}')
        FROM counted c;
END
$$;
