// Package sealing stands between the handlers and the batcher: it encrypts the payloads of queues that have encryption
// on, before anything else of ingest holds them.
//
// # Why no plain payload is stored where encryption is on
//
// Not because of this package. The procedure append decides: in the statement that writes, which begins after the
// partition is locked, it reads the queue's row, and a segment that is not marked as sealed is refused when encryption is
// on. So whoever was answered that encryption is on can rely on it: each push that begins afterwards writes by a statement
// that begins afterwards too, and sees it, whatever any process remembers. A push that was under way at that moment may
// still be stored plain; its segment's time is before the switch.
//
// Nor can a payload be marked by mistake. The mark of a group is set in one place, by the function that has just
// encrypted all its payloads, and the batcher never joins marked and unmarked groups.
//
// What is remembered here, for a moment, only decides which attempt is made first. Remembered as off while it is on:
// append refuses, the payloads are sealed and go again. Remembered as on while it is off: sealed payloads are stored in a
// plain queue, where they are read like any others, because readers go by the shape.
//
// While the database is away, what was known last, or lies beside the spool, decides. A payload that was spooled plain for
// a queue with encryption on lies in a record that is sealed as a whole, if there is a key, and is sealed itself before it
// is appended; without a key it is never appended.
//
// So that plain payloads do not even travel to the database for nothing, unknown queues are looked up before they are
// pushed to. A server without a key need not know: append tells it, and the item fails.
//
// # Concurrency
//
// Nothing here starts a goroutine. Lookups coalesce: while one is under way, whoever finds a queue unknown joins the next
// one, which the first of them makes, for all of them, as soon as the one before has ended. It does so also when its own
// client has left, since others wait for it; a lookup has a deadline, and so has the one before it. The mutex is never
// held over a lookup. Gate.Push blocks in a lookup and in the push it passes on, and ends early with its context only
// where that push does and while it waits for the lookup of another.
package sealing
