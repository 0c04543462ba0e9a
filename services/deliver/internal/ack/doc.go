// Package ack carries out acks and lease renewals: it sorts the messages of a call into the groups that are decided as
// one, has them decided in SQL, renders the decisions as the wire's results, and tells the waiting polls which
// partitions came free. It decides nothing itself and starts no goroutine; a Service is shared by all requests.
//
// Calls of the store do not end with the client's request. An ack that was begun is worth finishing: the client will
// repeat it, and finds it done.
package ack
