-- configure_queue changes options of a queue, and creates the queue when there is none.
--
-- Callers: the admin store.
-- Input:   an option that is NULL keeps its value. A queue created here has the table's defaults, except that it leases
--          for 300 s and has neither namespace nor task: only those created by a push or a pop derive them. Values are
--          within their bounds; the caller clamps and refuses.
-- Answer:  the queue's row, with what is in force now.
-- Locks:   the queue's row FOR NO KEY UPDATE, held to the end: it waits for partitions that are being created in the queue
--          and for groups that are being registered. Of two calls at once the second changes what the first left.
DROP FUNCTION IF EXISTS queen.configure_queue(
    uuid, text, text, text, integer, integer, integer, integer, integer, integer, boolean, boolean, integer, integer, integer, integer,
    boolean, boolean, integer, integer, integer, text, integer, integer);
DROP FUNCTION IF EXISTS queen.configure_queue(
    uuid, text, text, text, integer, integer, integer, integer, integer, integer, boolean, boolean, integer, integer, integer, integer,
    boolean, boolean, integer, integer, integer, text, integer, integer, integer);
CREATE OR REPLACE FUNCTION queen.configure_queue(
    p_tenant uuid, p_queue text,
    p_namespace text DEFAULT NULL, p_task text DEFAULT NULL,
    p_priority integer DEFAULT NULL, p_lease_seconds integer DEFAULT NULL, p_retry_limit integer DEFAULT NULL,
    p_retry_delay_ms integer DEFAULT NULL, p_max_size integer DEFAULT NULL, p_ttl_seconds integer DEFAULT NULL,
    p_dead_letter_queue boolean DEFAULT NULL, p_dead_letter_after_retries boolean DEFAULT NULL,
    p_delayed_processing_seconds integer DEFAULT NULL, p_window_buffer_seconds integer DEFAULT NULL,
    p_retention_seconds integer DEFAULT NULL, p_completed_retention_seconds integer DEFAULT NULL,
    p_retention_enabled boolean DEFAULT NULL, p_encryption_enabled boolean DEFAULT NULL,
    p_max_wait_seconds integer DEFAULT NULL, p_min_pop_wait_ms integer DEFAULT NULL,
    p_dedup_window_seconds integer DEFAULT NULL, p_retention_sink_hold text DEFAULT NULL,
    p_retention_sink_hold_max_seconds integer DEFAULT NULL, p_delivery_limit integer DEFAULT NULL,
    p_redelivery_delay_seconds integer DEFAULT NULL, p_spool_enabled boolean DEFAULT NULL)
RETURNS queen.queues
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_queue queen.queues;
BEGIN
    LOOP
        INSERT INTO queen.queues (tenant, name, namespace, task, lease_seconds)
        SELECT p_tenant, p_queue, '', '', 300
        WHERE NOT EXISTS (SELECT FROM queen.queues q WHERE q.tenant = p_tenant AND q.name = p_queue AND q.deleted_at IS NULL)
        ON CONFLICT (tenant, name) WHERE deleted_at IS NULL DO NOTHING;

        UPDATE queen.queues q
        SET namespace = coalesce(p_namespace, q.namespace),
            task = coalesce(p_task, q.task),
            priority = coalesce(p_priority, q.priority),
            lease_seconds = coalesce(p_lease_seconds, q.lease_seconds),
            retry_limit = coalesce(p_retry_limit, q.retry_limit),
            retry_delay_ms = coalesce(p_retry_delay_ms, q.retry_delay_ms),
            max_size = coalesce(p_max_size, q.max_size),
            ttl_seconds = coalesce(p_ttl_seconds, q.ttl_seconds),
            dead_letter_queue = coalesce(p_dead_letter_queue, q.dead_letter_queue),
            dead_letter_after_retries = coalesce(p_dead_letter_after_retries, q.dead_letter_after_retries),
            delayed_processing_seconds = coalesce(p_delayed_processing_seconds, q.delayed_processing_seconds),
            window_buffer_seconds = coalesce(p_window_buffer_seconds, q.window_buffer_seconds),
            retention_seconds = coalesce(p_retention_seconds, q.retention_seconds),
            completed_retention_seconds = coalesce(p_completed_retention_seconds, q.completed_retention_seconds),
            retention_enabled = coalesce(p_retention_enabled, q.retention_enabled),
            encryption_enabled = coalesce(p_encryption_enabled, q.encryption_enabled),
            max_wait_seconds = coalesce(p_max_wait_seconds, q.max_wait_seconds),
            min_pop_wait_ms = coalesce(p_min_pop_wait_ms, q.min_pop_wait_ms),
            dedup_window_seconds = coalesce(p_dedup_window_seconds, q.dedup_window_seconds),
            retention_sink_hold = coalesce(p_retention_sink_hold, q.retention_sink_hold),
            retention_sink_hold_max_seconds = coalesce(p_retention_sink_hold_max_seconds, q.retention_sink_hold_max_seconds),
            delivery_limit = coalesce(p_delivery_limit, q.delivery_limit),
            redelivery_delay_seconds = coalesce(p_redelivery_delay_seconds, q.redelivery_delay_seconds),
            spool_enabled = coalesce(p_spool_enabled, q.spool_enabled)
        WHERE q.tenant = p_tenant AND q.name = p_queue AND q.deleted_at IS NULL
        RETURNING q.* INTO v_queue;
        IF FOUND THEN
            RETURN v_queue;
        END IF;
        -- Deleted between the two statements: the name is free again.
    END LOOP;
END
$$;
