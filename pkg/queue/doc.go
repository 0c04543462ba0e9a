// Package queue is the vocabulary every service shares: tenants, names, consumer groups, identifiers and the closed
// list of error kinds. It holds no behaviour beyond validation and talks to nothing.
package queue
