// Package batch turns concurrent pushes into few transactions. It knows nothing of HTTP and nothing of SQL: requests
// come in through Push, flushes go out through an Appender.
//
// # What is promised
//
// A request brings one group of messages per partition. A group is an atom: it is in exactly one flush, whole, and has
// one outcome. Groups of one partition go out in the order in which they came, and at most one flush that holds a
// partition is under way at a time. Two groups of a partition that share a transaction hash are never in the same flush,
// since which of them is the duplicate, and whether it is one, is decided by the database under its lock: the later one,
// and everything behind it, waits for the next flush. So do sealed groups behind plain ones, and the other way round.
//
// Nothing waits while nobody works: a request that finds no flush under way is flushed at once. What arrives while one is
// goes with the next, which another committer begins when there is enough to fill it, or when the flush under way takes
// long; so batches grow with load, and a database that is slow to answer is given several flushes at a time. One that is
// quick is not: few large flushes cost it and this process much less than many small ones. The committers are shared with
// the live peers, since all of them work the same database. A flush is
// bounded in partitions and bytes, and takes tenants in turn, one partition of each, so neither a giant push nor a tenant
// with many partitions holds the others up for longer than one flush. Groups larger than the bound go alone.
//
// # Who owns what
//
// All state is in one schedule under one mutex, which is never held over the Appender, a channel or any other wait.
// Run owns the committers, a fixed number of goroutines; nothing else here starts one. Each committer loops: compose a
// flush under the mutex, append it without, settle it under the mutex. A partition in a flush is marked busy from
// composition to settling, and only the committer that composed the flush clears the mark: that is why there is never a
// second one. Composition takes from the front of a partition's list and Push adds at its end: that is why order holds.
//
// Hold marks a partition busy on behalf of somebody else, who clears the mark with Release: for the others it is as if a
// flush were under way. It gets the mark only while nobody has it, under the mutex, so it changes nothing in the argument.
//
// The caller of Push owns its messages again when Push returns, and not before: also when its context ends, Push stays
// until no flush holds a group of it. A group that is in no flush by then is withdrawn; one that is in a flush is decided
// as if nothing had happened, because it may be committed already.
//
// # Why no wake-up is lost
//
// Committers sleep on one condition variable and test under the mutex whether a flush is due before they do. It becomes due
// in five places. In Push and in Release, in composing, and when the timer fires that composing has set to when the others'
// patience ends: these signal under the same mutex, and if a committer sleeps it wakes; if none sleeps, each of them tests
// again before it does. And in settling, whose committer composes next itself. When a peer leaves, a flush may be due
// that nobody was told of; the next of these events comes by the end of the flush under way. So while a flush is due and
// the mutex is free, some committer is awake and on its way to compose, and while a partition is ready, some flush is
// under way or due.
//
// # Overload and shutdown
//
// The bytes of requests that were accepted and not yet answered are bounded (package room); beyond it Push waits for a
// while, in the order of arrival, and is then refused with kind Overloaded. A request larger than the whole bound is accepted
// only when there is no other.
//
// When the context of Run ends, Push refuses everything, and the committers finish what was accepted. They leave when
// nothing waits and no flush is under way; whatever makes that true wakes them all. If it takes longer than the drain
// time, what is in no flush yet is answered with kind Unavailable, and the flushes under way have their context ended,
// which bounds them. Run returns when the last committer has.
package batch
