// Package wire is the JSON that clients see: it reads request bodies and writes response bodies, and knows nothing of
// HTTP, storage or who sends what.
//
// Message payloads are never decoded. A request's payload is the exact slice of the body that held it, a response's is
// the exact bytes that were stored, so numbers beyond 2^53, key order, blanks and escapes survive to the byte.
// Everything else is small enough for encoding/json, except where a hot path says otherwise.
package wire
