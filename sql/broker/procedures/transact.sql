-- transact carries out acks and appends in one commit, or nothing of them.
--
-- Callers: the group store, for the append log (pkg/appendlog).
-- Input:   p_id names the transaction: a repeated call with it does nothing a second time. p_fingerprint and p_message_ids
--          are kept with it. p_partitions to p_vouch_tags as in append, p_ack_... and p_span_... to p_accepted as in ack;
--          p_ack_places is, per acked message, its place in the request.
-- Answer:  rows of three parts:
--            0 one row, the last: outcome 1 committed, 2 found (an earlier call with this id had committed), 3 undone.
--              After 1 and 2 it is what is known of the transaction, from p_fingerprint to the cursors that came free
--            1 the verdicts of append, 2 the decisions of ack; with outcome 3 they say why. After a refused ack there are
--              no verdicts of append, because it was not tried
--          Undone is what meets a duplicate, a queue that is gone or wants sealed payloads, an ack that cannot be
--          resolved or whose lease is not live, no consumer, and what ack must be supplied with.
-- Locks:   the transaction's id (advisory, before everything, so that the same one twice is one after the other),
--          partition rows by ascending id, cursors by (partition, subscription), held to the end. Acks are decided
--          before the append writes: they mean messages that were there before.
DROP FUNCTION IF EXISTS queen.transact(uuid, uuid, bytea, uuid[], integer[], timestamptz, bigint[], uuid[], bigint[], integer[], integer[],
    smallint[], bytea[], uuid[], boolean[], bigint[], timestamptz[], bigint[], bigint[], bigint[], text[], uuid[], uuid[], integer[], uuid[],
    smallint[], bigint[], bigint[], bigint[], bigint[], uuid[], timestamptz[], text[], bytea[], text[], uuid[]);
CREATE OR REPLACE FUNCTION queen.transact(
    p_id uuid, p_tenant uuid, p_fingerprint bytea, p_message_ids uuid[], p_ack_places integer[], p_clock_cap timestamptz,
    p_partitions bigint[], p_uids uuid[], p_tags bigint[], p_counts integer[], p_raw_bytes integer[], p_codecs smallint[],
    p_payloads bytea[], p_hashes uuid[], p_sealed boolean[], p_vouch_firsts bigint[], p_vouch_since timestamptz[],
    p_vouch_bases bigint[], p_vouch_lasts bigint[], p_vouch_tags bigint[],
    p_ack_groups text[], p_ack_partitions uuid[], p_ack_leases uuid[], p_ack_counts integer[], p_ack_hashes uuid[],
    p_ack_signals smallint[], p_ack_offsets bigint[], p_span_committed bigint[], p_span_ends bigint[],
    p_dead_offsets bigint[], p_dead_message_ids uuid[], p_dead_created timestamptz[], p_dead_transactions text[],
    p_dead_payloads bytea[], p_dead_reasons text[], p_accepted uuid[], p_clock_floor timestamptz DEFAULT NULL, p_clock_settled boolean DEFAULT false)
RETURNS TABLE (part smallint, outcome smallint, place integer, partition_id bigint, base_offset bigint, created_at timestamptz,
               duplicate_positions integer[], duplicate_offsets bigint[], item_outcomes smallint[], lease_released boolean,
               dead_lettered boolean, subscription_id bigint, committed_offset bigint, span_end bigint, needed_offset bigint,
               fingerprint bytea, message_ids uuid[], ack_places integer[], ack_outcomes smallint[], ack_dead boolean[],
               partitions bigint[], last_offsets bigint[], freed_subscriptions bigint[], freed_partitions bigint[],
               previous_tag bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_known  queen.transactions;
    v_before integer[];  -- acked messages before each group's
    v_undo   boolean := false;
BEGIN
    IF cardinality(p_ack_places) <> cardinality(p_ack_hashes) THEN
        RAISE EXCEPTION 'transact: arrays differ in length' USING ERRCODE = 'QU001';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(p_id::text, 0));
    SELECT * INTO v_known FROM queen.transactions t WHERE t.id = p_id;
    IF v_known.id IS NULL THEN
        v_known := ROW(p_id, p_tenant, clock_timestamp(), p_fingerprint, p_message_ids, '{}', '{}', '{}', '{}', '{}', '{}', '{}');
        SELECT array_agg(w.before ORDER BY w.place) INTO v_before
        FROM (SELECT c.place, (sum(c.n) OVER (ORDER BY c.place) - c.n)::integer AS before
              FROM unnest(p_ack_counts) WITH ORDINALITY AS c(n, place)) w;

        BEGIN
            PERFORM FROM queen.partitions p WHERE p.id = ANY (p_partitions) AND p.uid = ANY (p_uids) ORDER BY p.id FOR NO KEY UPDATE;

            part := 2;
            FOR place, outcome, item_outcomes, lease_released, dead_lettered, subscription_id, partition_id, committed_offset, span_end, needed_offset IN
                SELECT a.place, a.outcome, a.item_outcomes, a.lease_released, a.dead_lettered, a.subscription_id, a.partition_id,
                       a.committed_offset, a.span_end, a.needed_offset
                FROM queen.ack(p_tenant, NULL, p_clock_cap, p_ack_partitions, p_ack_leases, p_ack_counts, p_ack_hashes, p_ack_signals,
                    p_ack_offsets, p_span_committed, p_span_ends, p_dead_offsets, p_dead_message_ids, p_dead_created, p_dead_transactions,
                    p_dead_payloads, p_dead_reasons, p_ack_groups, p_accepted, p_clock_floor,
                    p_clock_settled) a
            LOOP
                RETURN NEXT;
                IF outcome <> 0 OR item_outcomes && ARRAY[3, 4]::smallint[] THEN
                    v_undo := true;
                END IF;
                v_known.ack_places := v_known.ack_places || p_ack_places[v_before[place] + 1:v_before[place] + p_ack_counts[place]];
                v_known.ack_outcomes := v_known.ack_outcomes || item_outcomes;
                v_known.ack_dead := v_known.ack_dead || array_fill(dead_lettered, ARRAY[p_ack_counts[place]]);
                IF lease_released THEN
                    v_known.freed_subscriptions := v_known.freed_subscriptions || subscription_id;
                    v_known.freed_partitions := v_known.freed_partitions || partition_id;
                END IF;
            END LOOP;
            IF v_undo THEN
                RAISE EXCEPTION 'transact: an ack is refused' USING ERRCODE = 'QU002';
            END IF;

            part := 1;
            FOR partition_id, outcome, base_offset, created_at, duplicate_positions, duplicate_offsets, previous_tag IN
                SELECT a.partition_id, a.verdict, a.base_offset, a.created_at, a.duplicate_positions, a.duplicate_offsets, a.previous_tag
                FROM queen.append(p_partitions, p_uids, p_tags, p_counts, p_raw_bytes, p_codecs, p_payloads, p_hashes, true, false,
                    p_sealed, p_vouch_firsts, p_vouch_since, p_vouch_bases, p_vouch_lasts, p_vouch_tags) a
            LOOP
                RETURN NEXT;
                IF outcome = 1 THEN
                    v_known.partitions := v_known.partitions || partition_id;
                END IF;
            END LOOP;
            IF cardinality(v_known.partitions) <> (SELECT count(DISTINCT w.id) FROM unnest(p_partitions) AS w(id)) THEN
                RAISE EXCEPTION 'transact: an append is refused' USING ERRCODE = 'QU002';
            END IF;

            -- Under their locks nobody else has appended since.
            SELECT coalesce(array_agg(p.last_offset ORDER BY w.place), '{}') INTO v_known.last_offsets
            FROM unnest(v_known.partitions) WITH ORDINALITY AS w(id, place) JOIN queen.partitions p ON p.id = w.id;
            INSERT INTO queen.transactions SELECT v_known.*;
            outcome := 1;
        EXCEPTION WHEN SQLSTATE 'QU002' THEN
            outcome := 3;
        END;
    ELSE
        outcome := 2;
    END IF;

    part := 0;
    place := NULL; partition_id := NULL; item_outcomes := NULL; duplicate_positions := NULL; duplicate_offsets := NULL; previous_tag := NULL;
    fingerprint := v_known.fingerprint; message_ids := v_known.message_ids;
    ack_places := v_known.ack_places; ack_outcomes := v_known.ack_outcomes; ack_dead := v_known.ack_dead;
    partitions := v_known.partitions; last_offsets := v_known.last_offsets;
    freed_subscriptions := v_known.freed_subscriptions; freed_partitions := v_known.freed_partitions;
    RETURN NEXT;
END
$$;
