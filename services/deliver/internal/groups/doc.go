// Package groups changes consumer groups from outside: it moves their cursors, ends their identity and counts what they have
// not consumed. What a change means is decided in SQL, page by page; this package turns the pages, and tells whoever waits
// here what has changed.
//
// # Concurrency
//
// A Service keeps no state, starts no goroutine and may be called by all requests at once. A change goes on when its client
// hangs up, since half of one serves nobody; each page has a time limit of its own and is one transaction, so a process that
// dies leaves the pages that are done. Every change may be repeated.
package groups
