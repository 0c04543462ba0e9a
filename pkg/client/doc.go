// Package client calls the message routes of a Queen cell over HTTP: push, pop, ack, lease extension. It is what our own
// programs and tests use; it is not a port of the SDKs, holds no consumer loop and never looks into a payload.
//
// A Client is safe for concurrent use and starts no goroutine. What it repeats by itself when an answer is missing is
// only what the broker recognises as a repetition: a push whose items all carry transaction ids, an ack (completing a
// message again changes nothing; a negative ack is not repeated), a lease extension. A pop is never repeated, neither
// here nor by net/http underneath: a second pop would take a second lease and leave the first one to its expiry.
package client
