// Package mesh lets the processes of a cell tell each other what they did: which partitions got messages, whose cursors
// became free, which queues changed, which modes were switched, and who is there. It carries hints and nothing else:
// PostgreSQL stays the truth, a lost hint costs time, and with the mesh off everything works. It is the only door to
// NATS: each process runs an embedded node with routes to the nodes of its peers, or all connect to an existing server.
//
// # What arrives
//
// A message arrives once or not at all. Each publisher (one boot of a process) numbers its hints in one sequence for each
// subject, and its queue changes in another; a heartbeat tells the last number of each. One goroutine publishes all of
// that, through one connection, and nodes keep the order of a publisher, so when a heartbeat counts more than what arrived
// before it, something is lost. A hint that the sender drops takes a number as well. Receivers are then told of a Gap and
// derive anew what they keep; so they are when a peer comes, goes, or the own connection was cut.
//
// Hints travel on 256 subjects, chosen by tenant and queue, and a process subscribes only to those it watches. A new
// subscription asks all peers for a heartbeat. The question follows the subscription on every route, so each answer
// tells what was published before the peer knew of the subscription: when that is more than the last heartbeat told, the
// receiver learns of a Gap a moment after Watch. Whoever derives after Watch and again after a Gap has missed nothing.
//
// # Goroutines
//
// Run owns the node, the connection and two goroutines, and returns when all have ended.
//
// The sender is the only one that publishes and subscribes. Announce, Watch and the others put what is to be done into
// structures behind mutexes, none of which is held while anybody waits, and drop a token into a channel of one; the
// sender takes the token, then all there is. There is no timer: the first hint leaves at once, and what comes while the
// connection takes it leaves together, coalesced. What waits is bounded; the sequences are the sender's alone.
//
// The receiver is the only one that calls handlers and changes the table of peers, whose mutex is for readers. Messages
// of all subscriptions come through one channel, in the order of the connection; when handlers are slower than messages,
// the client library drops new ones and the numbers tell. Neither goroutine waits for the other: a slow handler never
// keeps the sender from sending.
package mesh
