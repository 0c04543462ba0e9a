// Package transaction carries out transactions: it sorts the operations of a request into what appendlog and the ack
// procedure take, has them committed together, and renders what became of each. After the commit it does what the ack route
// does for every lease that ended, by the same code. It decides nothing that the database should: whether an ack counts,
// what is a duplicate, and whether the same request was carried out before is found out under the locks of the one call
// that commits.
//
// # Which lease an ack is made under
//
// The one that the operation names, or another operation on the same partition and group. Otherwise, when the request
// names leases anywhere, the one that the cursor has on record; with requiredLeases it must be among those that the request
// names, because whoever requires leases wants nothing done under somebody else's. When no lease is named at all, none is
// asked for.
//
// # The id
//
// A request with an idempotency key has an id that is derived from tenant and key, so that it is the same one in every
// process; any other has one of its own, which protects it from a lost answer only within the call. What a key stands for
// is known by a fingerprint of the operations. Leases are no part of it: they say under which right something is done, not
// what, and a message that is delivered again comes with another one.
//
// A Service is shared by all requests and starts no goroutine. Its calls do not end with the client's request: a transaction
// that was begun is worth finishing, for its leases would have to run out otherwise.
package transaction
