// Package auth decides who may call: it verifies bearer tokens and compares the roles in them with the access level of a
// route. It knows nothing of HTTP servers; pkg/httpd asks it before anything else of a request is looked at.
//
// This build verifies HS256 and nothing else. A Verifier is immutable and safe for concurrent use; it does no I/O.
package auth
