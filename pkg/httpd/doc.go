// Package httpd is the door to gin: the one HTTP server of every service. It mounts the rows of the route table that
// belong to the service's role, answers everything else in the contract's shape, bounds bodies and stalled clients,
// measures and logs each request, and stops in order. Handlers live in the services; they decode, call one function and
// answer through the helpers here.
//
// # Goroutines and stopping
//
// Run owns the accept loop; net/http owns one goroutine per connection, and Run returns only when the loop has ended
// and every handler has returned, or was cut and given cutWait to notice. Handlers may block on their own work and on
// their client; a client that neither sends nor takes a byte for stallTimeout is dropped. Long polls are not limited.
//
// When Run's context ends: readiness goes off, and the processes of the mesh learn that this one leaves; Draining closes,
// so that parked polls answer at once; the server goes on serving for DrainDelay, because balancers need that long to notice, with `Connection: close` on every response; then
// the listener closes, connections on which nothing was asked are closed, and requests in flight get ShutdownTimeout.
// What is still running after that has its context cancelled and its connection closed.
//
// The context of a request does not descend from Run's: a stop is not a cancelled request. It ends when the client
// leaves or the request is cut.
package httpd
