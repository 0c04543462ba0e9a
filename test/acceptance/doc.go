// Package acceptance tests what existing clients rely on. The wire contract ends with a list of 103 numbered lines of
// behaviour; each is a test here that drives real services over HTTP, or stands in a list with what it waits for. Every
// line runs on two cells at once: one ingest and one deliver behind the edge with authentication on, and two of each with
// a key and tenancy on, where requests go to the edge and to each process in turn. Tenancy has tests of its own.
// docs/acceptance.md says how to read it.
package acceptance
