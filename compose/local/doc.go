// Package local runs a whole Queen on this machine, as plain processes: a private PostgreSQL and ingest, deliver,
// maintainer, console and edge in front of it. `make up` is a thin command around it, and the end-to-end tests use the
// same Start. It builds nothing in a container and changes nothing outside its folder, except that the database may
// have to live elsewhere when root runs it from a place that an unprivileged user cannot enter.
//
// # The folder
//
//	bin/            the services, when Build made them
//	postgres/       the cluster, its password, port and lock (see pkg/pgserver)
//	logs/           one file per process, and .1 with the run before
//	spool/          where ingest keeps pushes while the database is down
//	lock            held while a stack runs here; holds the runner's process id
//	stack.json      what runs and where, from the moment all of it is healthy until the end (mode 0600)
//
// # States
//
// Start takes the folder's lock, clears what a dead runner left behind, starts the database, then all services at once,
// and returns when each answers /health with 200. If anything ends before that, everything is stopped and the error
// names the service, its last words and its log file. From then on a process that ends by itself is reported in the
// merged log and stays ended; the others go on. Stop signals all services together, because deliver must answer parked
// polls before the edge can finish, and the database after them; what does not end in time is killed, which costs no
// acknowledged data. The lock decides who is alive: a process id read from a file is signalled only while the lock is
// held by its owner, or when the running program has exactly the arguments that were written down.
//
// # Concurrency
//
// A Stack owns one goroutine per running process that collects it (and, inside os/exec, one that copies its output), one
// that watches the database, and one that writes the merged log. The first three end with what they watch, the last one
// with Stop, which waits for all of them. Copying never waits for the merged log's reader: a full buffer drops lines
// there and says how many; the files always get everything. Exported methods may be called from any goroutine; Stop may
// be called again and then only waits. If the runner is killed, lifelines end its services and its database.
package local
