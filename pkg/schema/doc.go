// Package schema brings the broker's database to the SQL that this binary carries, or says that it is not there yet. It
// owns one table, queen.schema_version; everything else it installs is the text of sql/broker.
//
// # Installing
//
// One process at a time installs, under a session advisory lock on a connection of its own. The row of
// queen.schema_version says which version and fingerprint are complete, and which version an installation that has not
// ended was moving to. Three cases:
//
//   - the row shows this binary's version and fingerprint: nothing is done, not even the lock is taken;
//   - it shows a higher version, complete or not: nothing is done, an older binary never overwrites a newer schema;
//   - else every statement of every file runs, in order, each in a transaction of its own with a short lock timeout.
//     Files are idempotent, so a run that breaks off is simply run again.
//
// A statement that cannot get its lock, or loses a deadlock, gives way to the traffic and tries again after a pause. No
// session is ever terminated for it.
//
// # Concurrency
//
// Apply and Check run in the caller's goroutine. A Keeper has no goroutine but the caller's of Run; Ready and Current may
// be called from any. What may block: connecting (bounded by its timeout), waiting for another installer (it polls, and
// ends with the context), a statement that builds something (no limit, ends with the context). On shutdown the context
// ends, the connection closes and the server releases the advisory lock; a half-done installation is marked and repeated
// by the next process.
package schema
