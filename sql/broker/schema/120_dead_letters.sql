-- How dead letters are looked for, beside the listing of a queue. A dead letter is rare and written once, so it may carry
-- more indexes than a row of the traffic.

-- Listings of one group of a queue, newest first. A name of 2048 bytes leaves room for the rest of the entry.
CREATE INDEX CONCURRENTLY IF NOT EXISTS dlq_queue_id_group_name_failed_at_idx ON queen.dlq (queue_id, group_name, failed_at DESC, id);

-- Listings of one partition, newest first; and whether a partition has any.
CREATE INDEX CONCURRENTLY IF NOT EXISTS dlq_partition_id_failed_at_idx ON queen.dlq (partition_id, failed_at DESC, id);

-- The address of a message. A transaction id may be longer than an index entry, so its hash stands here; whoever looks
-- compares the text as well.
CREATE INDEX CONCURRENTLY IF NOT EXISTS dlq_address_idx ON queen.dlq (partition_id, hashtextextended(transaction_id, 0));

-- Whether a message of a listing is a dead letter.
CREATE INDEX CONCURRENTLY IF NOT EXISTS dlq_partition_id_message_offset_idx ON queen.dlq (partition_id, message_offset);
