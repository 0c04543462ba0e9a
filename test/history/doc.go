// Package history judges what concurrent clients of a cell saw. A Recorder notes every call with its begin and its end, on
// one monotonic clock; after the load the stored log is read, and Check looks for anything in the whole that no correct
// broker can have answered. Its tests drive real processes; Check itself is a pure function.
//
// # What a call says
//
// A call takes effect at one moment between its begin and its end. One that got no answer (Lost) took effect at some moment
// after its begin, or never; nothing is concluded from what it may have done, and it counts for whatever it may explain. So
// every rule below has the form "for no choice of moments": Check reports only what is wrong for certain, and what a lost
// call could excuse is not reported.
//
// The offsets come from the database and are the positions of messages in their partition. They are not trusted: the rules
// about the log compare them with what the producers saw.
//
// # The log
//
// A partition's log is a register to which pushes append and that dedups by key.
//
// Order: there must be moments for all pushes that increase with the offsets. If they exist, each can be set to the
// greatest begin of all pushes up to its offset, so they exist exactly if that is not after the push's own end. One pass
// decides it; together with the order inside of one request this is linearizability of the appends.
//
// Dedup: a key is a register that is written once. The calls of one key are linearizable exactly if at most one of them
// stored it, all were told the id that is stored, and every call that found it there ended after a call that may have
// stored it began: then the writer can be put at its begin and all others at their end.
//
// Buffered: a push that was buffered is stored at some moment after its begin, unless another call of its key is stored
// before; it was answered, so it must be there in the end. A process that buffers keeps to the order of its own answers,
// queued or buffered; where it is known who answered, that is checked like Order, process by process.
//
// Loss: what was queued or buffered, or is a duplicate of something, is in the log once; what is in the log was pushed.
//
// # Groups
//
// For each partition and group the broker keeps a cursor and a lease. A lease is granted between begin and end of its pop
// and lasts until its time has passed, counted from the grant, or a call that may end it begins; extensions move the time
// only when all that the lease holds was extended. So the earliest end of a lease is known, and two grants A and B cannot
// both be right when A was certainly granted before the earliest end of B and B before the earliest end of A. That is the
// same as an overlap of the intervals from a pop's answer to the lease's earliest end, in which the lease is proven live,
// and it is found by sorting. An auto-acknowledging pop is a lease of no length.
//
// The cursor only grows here (no history moves it back), and stands at a message that somebody completed, dead-lettered or
// consumed automatically. From this follow: no delivery that begins after a completion was answered contains the message
// or one before it; spans that follow each other in time do not start lower; a span starts behind a message for which a
// completion had begun; first deliveries come in the order of the log; deliveries from one head are numbered 1, 2, 3 in
// their order in time; who acks under a lease that has certainly ended, by its time or by a later grant, is refused; and
// when a group has drained the queue, its cursor is at the end of each partition.
//
// # What is not proven
//
// The rules about groups are necessary, not sufficient: they do not search for one sequence of all calls, which for a
// cursor with leases is exponential in the calls under way at a time. What they leave open is told by the model test, which
// runs one call at a time and compares every answer. Nothing is concluded about calls that were lost.
//
// # Cost
//
// Everything is sorting and single passes: O(n log n) in the number of calls and delivered messages. The overlap of leases
// looks at pairs only while they overlap, which in a correct history is never.
//
// # Concurrency
//
// Check is pure. A Recorder is one mutex around the slices of a History; calls are noted when they have
// ended, so that their order in the slices means nothing.
package history
