// Package pgserver runs a private PostgreSQL server from the binaries that the machine already has: one for the native
// runner, whose data must survive everything, and throw-away ones for tests. It listens on the loopback address only,
// asks for a password (scram), and gives up root before PostgreSQL starts. It is not a connection pool and knows
// nothing about Queen's schema.
//
// # A folder and what is in it
//
// A server lives in one folder: data/ (the cluster), password (mode 0600), port (the port of the last run) and lock. A
// cluster is created beside its final name and renamed when complete, so an interrupted first start leaves nothing
// half made. When the program runs as root the server runs as another user; if that user cannot enter the folder, the
// four move to a folder that it can enter, and the log says where.
//
// # Who owns what, and what happens on failure
//
// The lock is a flock held by the program that runs the server: a second program is refused, and the death of the
// holder frees it. A server that outlived its holder is recognised by postmaster.pid and stopped in order before a new
// one starts; a stale postmaster.pid is only removed when its process is certainly not a server of this folder. The
// package never kills a server with SIGKILL except when asked to by Kill, and after Stop's deadlines have passed;
// PostgreSQL recovers from that because fsync stays on.
//
// Concurrency: Start creates one goroutine, which waits for the server process and closes the channel returned by
// Done; os/exec adds one that copies the server's output. Both end when the server ends. Stop, Kill and Done may be
// called from any goroutine, any number of times; Stop blocks until the server has ended or its last deadline passed. A
// lifeline ends the server when the program dies without calling Stop.
package pgserver
