// Package retention applies the rules of queues to what they have stored: it cuts logs, deletes what lies below their start,
// and deletes dedup rows that nobody may ask for any more.
//
// # How a cycle goes
//
// Queues are asked, a page at a time, whether anything of theirs is due; that costs some look-ups a queue, however many
// partitions and messages there are. For each queue that says so:
//
//	cut_logs          pages of a few partitions: the start moves, under the locks of the partitions, and is committed
//	remove_segments   batches of rows below the start, without these locks
//	remove_hashes     batches of dedup rows
//
// Every call is one transaction that begins with the fence of the task (package claim), so a holder that was replaced
// changes nothing. What one call commits and the next does not follow up on, because the process died, is found by whoever
// works the next period: rows below a start are marked as left over.
//
// # Concurrency
//
// Queues are divided among a bounded number of workers, each on a connection of the pool; two never work on one queue. The
// cycle waits for all of them before it renews the lease, because a renewal waits for steps under way, and before it returns.
// What workers have removed is summed up under a mutex. Why appends, claims, acks, seeks and memories of services are not hurt
// by any step is written in the heads of the procedures.
package retention
