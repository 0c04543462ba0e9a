-- consume ends completed leases and claims new ones, for several calls in one commit. First come all the completions, then
-- the claims, one after the other.
--
-- Callers: the group store.
-- Input:   p_tenants to p_lasts as in complete; one element per claim in p_claim_... and p_counts, whose candidates stand one
--          after the other in p_candidates; what they mean is written in claim.
-- Answer:  part 0: the completed leases, by their place; verdict 1 when something is left behind them, or else 0. Part 1: the
--          rows of claim, with the place of their claim. A claim may have none. The cursor of a candidate whose verdict
--          is 11 has no row yet.
-- Locks:   cursors, all with SKIP LOCKED, in whichever order the calls name them, held to the end. The claims insert no row,
--          which could mean to wait for another's row of the same key. What waits for nothing is in no deadlock, and keeps no
--          call waiting for the cursor of another.
DROP FUNCTION IF EXISTS queen.consume(timestamptz, uuid[], bigint[], bigint[], uuid[], uuid[], bigint[], bigint[], bigint[], uuid[], uuid[],
    integer[], integer[], integer[], bigint[], boolean[], boolean[], integer[], bigint[]);
CREATE OR REPLACE FUNCTION queen.consume(
    p_clock_cap timestamptz,
    p_tenants uuid[], p_subscriptions bigint[], p_partitions bigint[], p_uids uuid[], p_leases uuid[], p_firsts bigint[], p_lasts bigint[],
    p_claim_subscriptions bigint[], p_claim_uids uuid[], p_claim_leases uuid[], p_claim_seconds integer[], p_claim_batches integer[],
    p_claim_partitions integer[], p_claim_bytes bigint[], p_claim_auto_acks boolean[], p_claim_at_least_one boolean[],
    p_counts integer[], p_candidates bigint[], p_clock_floor timestamptz DEFAULT NULL, p_clock_settled boolean DEFAULT false)
RETURNS TABLE (part smallint, place integer, partition_id bigint, verdict smallint, first_offset bigint, last_offset bigint,
               attempt integer, until timestamptz, partition_uid uuid, partition_name text, clock timestamptz,
               segment_bases bigint[], segment_tags bigint[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_before integer := 0; -- candidates of the claims before
BEGIN
    IF cardinality(p_candidates) <> (SELECT coalesce(sum(n), 0) FROM unnest(p_counts) n) THEN
        RAISE EXCEPTION 'consume: arrays differ in length' USING ERRCODE = 'QU001';
    END IF;

    IF cardinality(p_leases) > 0 THEN
        part := 0;
        FOR place, verdict IN
            SELECT d.place, d.left_behind::integer
            FROM queen.complete(p_clock_cap, p_tenants, p_subscriptions, p_partitions, p_uids, p_leases, p_firsts, p_lasts,
                p_clock_floor, p_clock_settled) d
        LOOP
            RETURN NEXT;
        END LOOP;
    END IF;

    FOR i IN 1..cardinality(p_counts) LOOP
        RETURN QUERY
            SELECT 1::smallint, i, c.partition_id, c.verdict, c.first_offset, c.last_offset, c.attempt, c.until, c.partition_uid,
                   c.partition_name, c.clock, c.segment_bases, c.segment_tags
            FROM queen.claim(p_claim_subscriptions[i], p_claim_uids[i], p_candidates[v_before + 1:v_before + p_counts[i]], p_claim_leases[i],
                p_claim_seconds[i], p_claim_batches[i], p_claim_partitions[i], p_claim_bytes[i], p_claim_auto_acks[i], p_clock_cap,
                p_claim_at_least_one[i], true, true, false, p_clock_floor, p_clock_settled) c;
        v_before := v_before + p_counts[i];
    END LOOP;
END
$$;
