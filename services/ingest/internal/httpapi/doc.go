// Package httpapi answers ingest's routes. A handler decodes, calls one function and encodes; it has no SQL, starts no
// goroutine and keeps no state between requests.
package httpapi
