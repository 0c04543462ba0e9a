// Package modes keeps the switches that stop a cell's pushes or pops: which of them are on, for the process that obeys them,
// and how a change gets to everybody. It does not know what being on means.
//
// # Who is authoritative
//
// The database's row. Each process has a copy, which it makes anew from the row every few seconds, and hears of changes
// through the mesh before that. A change has a version, the later one the higher: the clock of whoever switched, but always
// more than what that process knew.
//
// # While the database is away
//
// A switch can be turned all the same. It holds in that process at once, goes to the others through the mesh, and is
// written as soon as the database is back, by whoever of them is first; unless somebody has turned the switch later. A copy
// that the database is not known to have is therefore kept apart from one that it has (stored). A process with a file keeps
// its copy there, so that it starts with it when there is no database.
//
// When the row is older than a copy that the database had, the database is another one, or an older state of the same: it
// was restored, or a standby took over. Its row counts then, and gets a new version, so that everybody takes it.
//
// # Concurrency
//
// The copy is under a mutex that is held over nothing slow. Heard, On, Known and Began may be called by any goroutine and
// never wait. Set and the reading of rows are serialised, each by a token of its own kind: calls of Set by a channel of one,
// reads by sharing the one under way. The file is written by whoever has its token. Run is one goroutine and starts none.
package modes
