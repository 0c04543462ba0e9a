-- find_candidates is a page of the partitions where groups may find work, for many groups at once: something lies past the
-- group's cursor. Only claim decides; delays and windows are not looked at here.
--
-- Callers: the group store.
-- Input:   one element per group. p_slots NULL walks all partitions of the queue by id, from p_afters on. Otherwise those are
--          walked that were written in p_slots or later, by (written_at, id), from (p_slots, p_afters) on; of these, the
--          ones last written before p_since are passed over. p_limit bounds the partitions that are walked of each group,
--          and so the work. p_known and p_known_places (of the group, from 1) are partitions to look at besides.
--          p_clock_cap and p_clock_floor as in claim.
-- Answer:  place 0: the clock, and of the snapshot that all this is true in when it was taken at the earliest (asked) and the
--          bounds of the transactions that it does not see. All with a number below oldest had ended; all from next on got
--          theirs after asked.
--          For each group that exists and whose registration is at its end, a row without a partition: how far the walk came
--          (slot, after), how many partitions it walked, how often the group's cursors were moved, and whether deliveries are
--          paused: then nothing is walked. Fewer than p_limit means that it is at the end.
--          A row for each partition with work, twice for what is walked and known: until says until when a lease holds it
--          or a nack has its head wait.
-- Locks:   none.
DROP FUNCTION IF EXISTS queen.candidates(bigint, uuid, bigint, integer, timestamptz);
DROP FUNCTION IF EXISTS queen.find_candidates(bigint[], uuid[], timestamptz[], timestamptz[], bigint[], integer, integer[], bigint[], timestamptz);
CREATE OR REPLACE FUNCTION queen.find_candidates(
    p_subscriptions bigint[], p_uids uuid[], p_since timestamptz[], p_slots timestamptz[], p_afters bigint[], p_limit integer,
    p_known_places integer[], p_known bigint[], p_clock_cap timestamptz,
    p_clock_floor timestamptz DEFAULT NULL, p_clock_settled boolean DEFAULT false)
RETURNS TABLE (place integer, partition_id bigint, until timestamptz, slot timestamptz, after bigint, walked bigint, moves bigint, paused boolean,
               clock timestamptz, asked timestamptz, oldest bigint, next bigint)
LANGUAGE sql STABLE AS $$
    -- Each look-up stands in a subquery with a limit: so it is made row by row, whatever the plan's estimates are.
    WITH groups AS MATERIALIZED (
        SELECT w.place::integer, w.id, w.since, w.slot, w.after, s.queue_id, s.moves, coalesce(s.paused_at, q.paused_at) IS NOT NULL AS paused
        FROM unnest(p_subscriptions, p_uids, p_since, p_slots, p_afters) WITH ORDINALITY AS w(id, uid, since, slot, after, place)
        CROSS JOIN LATERAL (SELECT s.queue_id, s.moves, s.paused_at FROM queen.subscriptions s WHERE s.id = w.id AND s.uid = w.uid AND s.seeding_after IS NULL LIMIT 1) s
        CROSS JOIN LATERAL (SELECT q.paused_at FROM queen.queues q WHERE q.id = s.queue_id AND q.deleted_at IS NULL LIMIT 1) q
    ), written AS MATERIALIZED (
        SELECT g.place, g.id AS subscription, p.id, p.written_at, p.first_offset, p.last_offset, p.last_created_at >= g.since AS wanted
        FROM groups g
        CROSS JOIN LATERAL (SELECT p.id, p.written_at, p.log_start AS first_offset, p.last_offset, p.last_created_at
                            FROM queen.partitions p
                            WHERE p.queue_id = g.queue_id AND (p.written_at, p.id) > (g.slot, g.after) AND p.written_at IS NOT NULL
                            ORDER BY p.queue_id, p.written_at, p.id LIMIT p_limit) p
        WHERE g.slot IS NOT NULL AND NOT g.paused
    ), every AS MATERIALIZED (
        SELECT g.place, g.id AS subscription, p.id, NULL::timestamptz AS written_at, p.first_offset, p.last_offset, true AS wanted
        FROM groups g
        CROSS JOIN LATERAL (SELECT p.id, p.log_start AS first_offset, p.last_offset
                            FROM queen.partitions p WHERE p.queue_id = g.queue_id AND p.id > g.after
                            ORDER BY p.queue_id, p.id LIMIT p_limit) p
        WHERE g.slot IS NULL AND NOT g.paused
    ), known AS (
        SELECT g.place, g.id AS subscription, p.id, p.first_offset, p.last_offset
        FROM unnest(p_known_places, p_known) AS k(place, partition) JOIN groups g ON g.place = k.place AND NOT g.paused
        CROSS JOIN LATERAL (SELECT p.id, p.log_start AS first_offset, p.last_offset
                            FROM queen.partitions p WHERE p.id = k.partition AND p.queue_id = g.queue_id LIMIT 1) p
    ), walked AS MATERIALIZED (
        SELECT * FROM written UNION ALL SELECT * FROM every
    ), came AS (
        SELECT DISTINCT ON (w.place) w.place, w.written_at, w.id, count(*) OVER (PARTITION BY w.place) AS n
        FROM walked w ORDER BY w.place, w.written_at DESC, w.id DESC
    )
    -- now() is the time at which this call came in, before its snapshot was taken; clock_timestamp() would be after. The next
    -- number to be given out is not the snapshot's xmax, from which on there may be transactions under way. A call without a
    -- number of its own is told it by age, modulo 2^32 and counted from 3, the first there is.
    SELECT 0, NULL::bigint, NULL::timestamptz, NULL::timestamptz, NULL::bigint, NULL::bigint, NULL::bigint, NULL::boolean, clock_timestamp(), now(),
           b.oldest, b.seen + ((age(xid '3')::bigint + 3 - b.seen) & 4294967295)
    FROM (SELECT pg_snapshot_xmin(s)::text::bigint AS oldest, pg_snapshot_xmax(s)::text::bigint AS seen FROM pg_current_snapshot() s) b
    UNION ALL
    SELECT g.place, NULL, NULL, coalesce(c.written_at, g.slot), coalesce(c.id, g.after), coalesce(c.n, 0), g.moves, g.paused, NULL, NULL, NULL, NULL
    FROM groups g LEFT JOIN came c ON c.place = g.place
    UNION ALL
    SELECT f.place, f.id, CASE WHEN c.until > t.now THEN c.until END,
           NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM (SELECT w.place, w.subscription, w.id, w.first_offset, w.last_offset FROM walked w WHERE w.wanted
          UNION ALL SELECT k.place, k.subscription, k.id, k.first_offset, k.last_offset FROM known k) f
    CROSS JOIN (SELECT n.clock, least(n.clock, p_clock_cap) AS now FROM (SELECT clock_timestamp() AS clock OFFSET 0) n) t
    LEFT JOIN LATERAL (SELECT c.committed, greatest(queen.end_of_lease(c, t.clock, p_clock_cap, p_clock_floor, p_clock_settled), c.not_before) AS until FROM queen.cursors c
                       WHERE c.subscription_id = f.subscription AND c.partition_id = f.id LIMIT 1) c ON true
    WHERE f.last_offset >= greatest(coalesce(c.committed, -1) + 1, f.first_offset)
$$;
