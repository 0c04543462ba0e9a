-- delete_queue marks a queue as deleted, which frees its name at once: from its commit on nobody finds the queue by name,
-- and every procedure that comes by a partition or a subscription treats it as gone. What belongs to the queue is left
-- to be reaped step by step.
--
-- Callers: the admin store.
-- Answer:  the wire id of the queue that was deleted; NULL when there was none of that name. Of two calls at once one
--          deletes; it does not touch a queue that was created under the name while it waited.
-- Locks:   the queue's row FOR NO KEY UPDATE: it waits for partitions being created in it, for registrations of groups and
--          for changes of its options, and those that come later find no queue. It locks no partition: an append or a
--          claim that has read the queue's row already ends as if it had come before.
CREATE OR REPLACE FUNCTION queen.delete_queue(p_tenant uuid, p_queue text)
RETURNS uuid
LANGUAGE sql VOLATILE AS $$
    UPDATE queen.queues q SET deleted_at = clock_timestamp()
    WHERE q.tenant = p_tenant AND q.name = p_queue AND q.deleted_at IS NULL
    RETURNING q.uid
$$;
