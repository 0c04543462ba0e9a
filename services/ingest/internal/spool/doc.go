// Package spool keeps records on this machine's disk until somebody has brought them to the database. It is a log of
// bytes: what a record means, and when it is read, is its caller's business.
//
// # What is promised
//
// Append returns nil only when its records are on the disk: written, fsynced, in a file that is still linked under its name
// in a folder whose lock is still ours. They are then returned by Next, in their order, once; by this process or, after its
// death, by whoever adopts the folder, which begins again with the first file that is there. A record for which Append
// returned an error is never returned by this process, nor after its death, except when the disk refused even to cut the
// file and to begin another one.
//
// Nothing that was answered for is dropped. Bytes that are no record are copied to the folder of what was set aside, then
// skipped. Records that are missing are counted and told by their sequences.
//
// # Folders
//
//	<root>/<server id>.<spool id>/lock            an exclusive lock of the owner, ended by the system with the process
//	<root>/<server id>.<spool id>/0000000001.spool  files of records, by number
//	<root>/aside/…                                what could not be brought to the database, one record a file
//	<root>/retry/…                                what somebody has moved there from aside, to have it tried again; and a lock
//
// Each start of a process makes a spool of its own, so nobody ever appends to what another has written. A folder whose
// lock can be taken belongs to a dead process. Whoever takes it checks that the lock's file is still the one under its
// name, because the previous owner may have removed the folder in between.
//
// # States of a file
//
//	active   appended to by Append; its end is the last byte that was answered for
//	sealed   complete; never appended to again
//	gone     every record of it was settled, and so was every file before it; removed
//
// A failed write or fsync seals the active file at its end, before the failed records, and tries to cut it there. What the
// disk did with the rest is not known, so the file is not touched again. The next file begins with the sequence of the
// first failed record, which tells a later reader, should the cut have failed too, that whatever has this sequence or a
// higher one in earlier files was never answered for. Only the last file of a dead process can be torn: it is cut, and what
// was cut is kept aside, too, since a flipped bit can look the same.
//
// # Concurrency
//
// Append may be called by any number of goroutines. Each puts its records into a list, under the mutex, then waits for the
// turn, a token that only one goroutine has. Whoever gets the turn and finds its records still in the list writes the
// whole list, with one fsync, and tells the result to all of it; whoever finds them gone has been served by the one before.
// So every call is served: it leaves the turn only when its own records have a result, and a list is never left behind,
// because each of its members will have the turn. There is no goroutine and no timer.
//
// Next, Settle and Reclaim belong to one goroutine at a time, the reader. It shares with the writers only the list of files
// and the end of the active one, both under the mutex, which is never held over I/O: a record becomes visible to the reader
// when its end is published, after the fsync. Reclaim takes the turn before it seals the active file, so no writer can be
// in the middle of it.
package spool
