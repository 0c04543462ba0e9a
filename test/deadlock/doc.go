// Package deadlock calls all procedures of the schema at once on the same few queues, partitions and groups, in whichever
// order its workers happen to come, and wants the database's own count of deadlocks to stay 0. It drives the stores, not
// the services: below them nothing waits, batches or spreads calls that collide.
//
// The lock order that makes deadlocks impossible is written in sql/README.md and in the head of each procedure. A
// procedure that takes its locks in another order meets one that does not within seconds here: the sets are small and
// half of the calls name several partitions, in random order. That all procedures take part is itself checked, by the
// server's count of calls; one that nobody calls fails the test by its name.
//
// What is stored in the end must be sound: no gaps between segments, no cursor beyond the end, nothing leased twice.
//
// Concurrency: workers share nothing but the stores and one mutex-guarded memory of what exists.
package deadlock
