// Package pop serves pops: it offers candidates to the claim in SQL, reads what was leased and assembles the answer,
// within one budget of messages and bytes and under one lease id for the whole call. It decides nothing about who gets
// what; that is the claim's. Where candidates come from is package ready's, how a poll waits is package wait's.
//
// # What a call goes through
//
// A call asks its ring for candidates and claims, until its budget is used up, or until a search that began after the
// call did has left nothing to claim. With nothing delivered, a long poll parks and looks again when it is woken; it does
// not search then, since the ring is searched once for all its polls. A call that leaves candidates behind wakes the
// next poll. Where the queue asks for it, a long poll that would get less than its batch is held first, once.
//
// A call claims no partition twice. With autoAck there may be more of one already, or a call may have taken so long that the
// first of its leases has ended: then what is left there is for the next pop.
//
// On a queue with a delivery limit, a message that was delivered before ends the call it is in: nothing joins it.
//
// # When something fails
//
// A claim whose answer is lost may have leased spans that nobody will read. Nothing is undone: such a lease ends by expiry
// and its span is delivered again, by design the same thing that happens when a consumer dies. Spans whose segments cannot
// be read after the claim are given back when the call ends, and so is the whole lease by the HTTP side when the client
// does not get the answer. With autoAck such a span is lost, which is what autoAck means. What an earlier claim of the same
// call delivered is still answered; otherwise the error is.
//
// Calls of the store do not end with the client's request: a statement that is cut off costs a connection, and the claim
// may happen all the same. They end by Options.Timeout, so that a poll is answered before its client gives up even when the
// database hangs.
//
// # Concurrency
//
// The package starts no goroutine. An Engine is shared by all requests and has no state of its own; a call belongs to one
// request.
package pop
