-- delete_group ends a group's identity on one queue, or on all of its tenant (p_queue NULL). That is the whole deletion,
-- however many cursors there are: they belong to an identity that no longer exists, so no claim, ack or extension finds
-- them, and drop_cursors removes them in steps. Dead letters stay.
--
-- Callers: the group store.
-- Input:   with p_keep the group lives on under a new identity that has taken nothing yet, with its registration and all
--          else that is noted about it: what the log still holds is delivered again, from its start. Without, the next pop
--          is a first contact.
-- Answer:  the identities that ended, and their queues.
-- Locks:   subscriptions by ascending id.
CREATE OR REPLACE FUNCTION queen.delete_group(p_tenant uuid, p_group text, p_queue text, p_keep boolean)
RETURNS TABLE (subscription_id bigint, queue_name text)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    FOR subscription_id, queue_name IN
        SELECT s.id, q.name
        FROM queen.queues q JOIN queen.subscriptions s ON s.queue_id = q.id AND s.group_name = p_group
        WHERE q.tenant = p_tenant AND q.deleted_at IS NULL AND (p_queue IS NULL OR q.name = p_queue)
        ORDER BY s.id
        FOR UPDATE OF s
    LOOP
        IF p_keep THEN
            -- No partition counts as one that the group has found, so that pops by partition start over, too.
            UPDATE queen.subscriptions s SET id = DEFAULT, uid = DEFAULT, newest_partition_id = 0,
                seeding_after = NULL, seeding_from = NULL, seeded = NULL, seeding_of = NULL
            WHERE s.id = delete_group.subscription_id;
        ELSE
            DELETE FROM queen.subscriptions s WHERE s.id = delete_group.subscription_id;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
