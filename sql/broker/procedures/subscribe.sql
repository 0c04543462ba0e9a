-- subscribe is a group's first contact with a queue by a wildcard or discovery pop, or finds that it happened. A contact
-- fixes where the group begins; its cursors are written by this call and, if there are many, by the next ones, whoever
-- makes them.
--
-- Callers: the group store, begin_seek.
-- Input:   p_mode 'all', 'new' or 'from' (then p_from is the time to start at). p_create false creates no queue. p_page bounds
--          the cursors that one call writes; NULL is no bound.
-- Answer:  the subscription and the queue; no row when there is no queue and none was to be created. With `seeded` the
--          registration is not at its end, and nothing may be claimed for the group: see seed_page. Call again.
--          queue_created says that this call has created the queue, which others are to be told.
-- Locks:   the queue's row FOR NO KEY UPDATE, only at first contact. It waits for the partitions being created, and the
--          statements after it see them; those created later have higher ids and are delivered from their start, whatever
--          any clock says. Then those of seed_page.
DROP FUNCTION IF EXISTS queen.subscribe(uuid, text, text, text, timestamptz);
DROP FUNCTION IF EXISTS queen.subscribe(uuid, text, text, text, timestamptz, boolean);
DROP FUNCTION IF EXISTS queen.subscribe(uuid, text, text, text, timestamptz, boolean, integer);
CREATE OR REPLACE FUNCTION queen.subscribe(
    p_tenant uuid, p_queue text, p_group text, p_mode text, p_from timestamptz, p_create boolean DEFAULT true, p_page integer DEFAULT NULL)
RETURNS TABLE (subscription_id bigint, subscription_uid uuid, queue_id bigint, seeded bigint, seeding_of bigint, queue_created boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_newest  bigint;
    v_seeding boolean;
BEGIN
    queue_created := false;
    LOOP
        SELECT s.id, s.uid, q.id, s.seeding_after IS NOT NULL INTO subscription_id, subscription_uid, queue_id, v_seeding
        FROM queen.queues q JOIN queen.subscriptions s ON s.queue_id = q.id AND s.group_name = p_group
        WHERE q.tenant = p_tenant AND q.name = p_queue AND q.deleted_at IS NULL AND s.registered_at IS NOT NULL;
        IF FOUND THEN
            IF v_seeding THEN
                SELECT p.seeded, p.seeding_of INTO seeded, seeding_of FROM queen.seed_page(subscription_id, subscription_uid, p_page) p;
                CONTINUE WHEN NOT FOUND; -- deleted between the two statements
            END IF;
            RETURN NEXT;
            RETURN;
        END IF;

        IF p_create THEN
            queue_created := queue_created OR EXISTS (SELECT FROM queen.ensure_queues(ARRAY[p_tenant], ARRAY[p_queue]));
        END IF;
        SELECT q.id INTO queue_id FROM queen.queues q
        WHERE q.tenant = p_tenant AND q.name = p_queue AND q.deleted_at IS NULL
        FOR NO KEY UPDATE;
        IF NOT FOUND AND NOT p_create THEN
            RETURN;
        END IF;
        CONTINUE WHEN NOT FOUND; -- deleted between the two statements

        SELECT coalesce(max(p.id), 0) INTO v_newest FROM queen.partitions p WHERE p.queue_id = subscribe.queue_id;
        v_seeding := p_mode <> 'all' AND v_newest > 0;

        INSERT INTO queen.subscriptions AS s (queue_id, group_name, newest_partition_id, registered_at, start_mode, start_from,
                                              seeding_after, seeding_from, seeded)
        VALUES (subscribe.queue_id, p_group, v_newest, clock_timestamp(), p_mode, p_from,
                CASE WHEN v_seeding THEN 0 END, CASE WHEN v_seeding THEN p_from END, CASE WHEN v_seeding THEN 0 END)
        ON CONFLICT ON CONSTRAINT subscriptions_queue_id_group_name_key DO UPDATE
            SET newest_partition_id = excluded.newest_partition_id, registered_at = excluded.registered_at,
                start_mode = excluded.start_mode, start_from = excluded.start_from,
                seeding_after = excluded.seeding_after, seeding_from = excluded.seeding_from, seeded = excluded.seeded
            WHERE s.registered_at IS NULL
        RETURNING s.id, s.uid INTO subscription_id, subscription_uid;
        CONTINUE WHEN NOT FOUND; -- another call registered it while this one waited for the lock

        IF v_seeding THEN
            SELECT p.seeded, p.seeding_of INTO seeded, seeding_of FROM queen.seed_page(subscription_id, subscription_uid, p_page) p;
        END IF;
        RETURN NEXT;
        RETURN;
    END LOOP;
END
$$;
