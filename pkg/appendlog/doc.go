// Package appendlog is the one way to append messages: it provisions partitions, cuts messages into segments, has
// duplicates judged, commits and announces. Whoever appends calls it; nobody else calls the append procedure.
//
// # What is promised
//
// A group, the messages of one call for one partition, is appended whole or not at all, in its order, at offsets above
// everything committed before. A message whose transaction id stands in the partition within the queue's window is not
// appended again; its outcome names the original. Groups are independent: each has its own result, though one server
// call commits as many of them as it can.
//
// # Who decides
//
// The procedure, under the partition's row lock. This package keeps partition ids, and one that has gone stale is answered
// by the verdict Gone or by the partition's absence, dropped and looked up again. And it keeps recent transaction hashes,
// to vouch that an append repeats none of a range of messages; the procedure looks only at the rest of the window. A
// voucher counts only if the newest row of its range is there with its tag, so one from before a failover is worth
// nothing, and a hash that may be known is sent without one. A range grows only by what surely came behind it: by an append
// that the procedure says came behind that tag, or by rows that were read together with the one that has it.
//
// # Failure
//
// Every attempt of a group carries a random tag. When the answer of a call is lost, the commit may have happened: the
// call is made once more, with the order to look for the tags first, under the lock. A call that surely did not commit
// is repeated once as well. When the second attempt tells no more, the result is an error of kind Unknown or
// Unavailable. An error that is the input's fault, or a partition that stays locked, is met by appending group by group,
// so that it fails alone.
//
// Replay makes the same of one message and its dead letter: the same tag, the same look under the lock. The letter is
// locked after the partition and before anything is written, and it leaves in the commit that brings the message.
//
// # Concurrency
//
// Append may be called concurrently; two calls with the same partition are ordered by its row lock. Large flushes are
// encoded by several goroutines, each group by one of them, which all have ended before anything is sent. It blocks in the database, at most for the deadlines below, and ends early with its context. The cache of ids is
// guarded by its own lock, never held over I/O.
package appendlog
