// Package lease is what this process remembers of leases: a guarded view of the database's clock, and which cursors a
// lease id holds. Both only save work or stop harm; whether a lease is live is decided in SQL.
//
// # The clock
//
// Leases end by the database's clock, so a leap of that clock forward would end all of them at once and let two workers
// have one span, and a fall would keep those of dead workers alive for as long. Clock keeps a pair of readings, database
// time and own monotonic time. From it follow the earliest and the latest time that the database can honestly show: the last
// seen database time and what our own monotonic clock says has passed, on either side what is not known of it, and a
// tolerance after the latest. Every claim, ack and renewal carries both, and the procedures take the latest for the time
// when the clock is ahead of it. What is leased while the clock is beyond either bound gets two ends, one by the clock and one
// by the bound, so that it is neither lost early nor kept for the width of the leap, whichever of the two is in force later.
//
// A lease whose beginning lies ahead of the clock was given before the clock fell. All processes can tell, since all leases
// say what the same clock showed. Who has kept the time from before knows how much of the lease has passed; who has been
// settled in the fallen time for as long as a lease lasts, knows that all of it has.
//
// A reading that is off by more than the tolerance is reported and does not replace the pair until the longest lease
// granted so far has passed: by then every lease that the leap could have ended has ended honestly. When the clock leaps
// again meanwhile, the wait begins anew. When it returns to where it was, nothing happened.
//
// A reading says only that the clock stood there at some moment between sending the question and having the answer. The
// pair is therefore an interval, narrowed by every reading; a slow answer neither looks like a leap nor hides one.
//
// A process that has just begun has no pair and believes its first reading. Without a reading there is no bound.
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
