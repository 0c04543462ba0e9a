// Package rounds lets concurrent calls share a call of the database. A call that finds nobody at work makes one for itself
// at once; those that come meanwhile wait and are carried out together in the next round. There is no timer: the busier it is,
// the more calls share a round.
//
// # Who works
//
// There is no goroutine but those of the callers. The call that begins a round leads it: it takes what may go together,
// carries it out, tells the others, and goes on until its own call is done. Then it names one of those that still wait as the
// next leader. At most Options.Parallel calls lead at a time.
//
// # What goes together
//
// Calls belong to classes, such as acks and claims. A round takes from each class on its own, up to a bound, so that no
// class starves behind another; within a class the tenants take turns, and each is served in the order its calls came.
//
// # How a call ends
//
// Do returns when a round has carried the call out, whatever came of it, or when its context ends while it still waits. Once
// it is in a round it waits for the end of that: what has been sent cannot be taken back. A round has as long as the most
// urgent of its calls; one that has less time left than Options.Spare is turned away before, because a round that is cut
// off fails for all that are in it.
//
// # Concurrency
//
// One mutex guards everything that waits, and is not held while a round works. A waiter is in its queue until a round takes
// it; only the leader of that round touches it then. Each waiter has one channel on which it is told that something changed:
// done or named leader, both of which are fields under the mutex; its buffer has room for both, so nobody blocks in telling.
// A leader that panics, or whose work does, still ends its round: its calls report that they were not carried out.
package rounds
