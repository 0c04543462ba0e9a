// Package lease is what this process remembers of leases: a guarded view of the database's clock, and which cursors a
// lease id holds. Both only save work or stop harm; whether a lease is live is decided in SQL.
//
// # The clock
//
// Leases end by the database's clock, so a leap of that clock forward would end all of them at once and let two workers
// have one span. Clock keeps a pair of readings, database time and own monotonic time, and Cap is the latest time that the
// database can honestly show: the last seen database time, plus what our own monotonic clock says has passed, plus a
// tolerance. Every claim, ack and renewal carries it, and the procedures test expiry against the lesser of the two. New
// leases and renewals count from the database's clock, or from Cap without the tolerance where the clock has fallen by more
// than that: what is granted then is not over when it returns.
//
// A reading that is off by more than the tolerance is reported and does not replace the pair until the longest lease
// granted so far has passed: by then every lease that the leap could have ended has ended honestly. When the clock leaps
// again meanwhile, the wait begins anew. When it returns to where it was, nothing happened.
//
// A reading says only that the clock stood there at some moment between sending the question and having the answer. The
// pair is therefore an interval, narrowed by every reading; a slow answer neither looks like a leap nor hides one.
//
// A process that has just begun has no pair and believes its first reading. Without a reading Cap is zero, which the
// procedures take for "no cap".
//
// # The registry
//
// Registry maps a lease id to the cursors that one pop leased under it, so that a renewal touches these rows instead of
// searching the whole table. A pop registers all its cursors in one call, before its answer is written: an entry is
// complete or absent. It also knows, as long as there is room, which messages the lease holds: an ack that completes all of
// them needs no look into the log. What is evicted, released elsewhere or granted by another process is merely searched for.
//
// Both types are safe for concurrent use, start no goroutine and block on nothing but their own short mutex.
package lease
