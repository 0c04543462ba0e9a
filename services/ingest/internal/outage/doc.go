// Package outage keeps pushes safe while the database cannot take them: it stands between the batcher and the append log,
// puts on disk what the log cannot store, and brings it to the log later. It knows nothing of HTTP; files are package
// spool's business, and what an append means the append log's.
//
// # What becomes of a group
//
//	push maintenance is on                                      spooled, and nothing is replayed
//	the database answers, nothing of its partition is spooled   appended to the log
//	the database is known to be away                            spooled, without asking it
//	a spool has records of its partition                        spooled behind them
//	the log failed, outcome unknown                             spooled with the attempt's tag, whatever a probe says
//	the log failed, nothing was stored, a probe fails           spooled, and the database counts as away
//	the log failed, nothing was stored, a probe answers         told to the client when a repetition is all that is needed
//	                                                            (no connection was free, a lock, the schema); else spooled
//	the input is to blame                                       told to the client
//	its queue is not spooled, or the disk does not take it      told to the client
//
// # Order
//
// The batcher has at most one call under way that holds a partition, and Append returns only when the group is in the log,
// or counted as pending and on the disk. So the next call for the partition sees it pending, and goes behind it: groups of
// one partition come to the disk, and from there to the log, in their order, and none goes to the log while one before it
// is still on the disk. Records are counted as pending before they are written, so that the count is never too low.
//
// Within a spool records of a partition are replayed in their order. Among spools the adopted ones come first, oldest
// first, then our own; a partition's records in one wait for those in the spools before it. A record that cannot be
// replayed keeps those of its partition behind it, and nobody else's, until it is replayed or set aside.
//
// So a partition that is pushed to all the time would never leave the spool again. Therefore the records that are a
// partition's last ones are replayed while the batcher holds the partition: what is pushed meanwhile waits in memory, and
// finds nothing pending when it goes on. Hold is refused while a group of the partition is on its way to the disk; then
// these were not the last.
//
// A record that is refused, or a spool that cannot be read, would keep the pushes of its partitions waiting behind it for as
// long as that lasts. With Options.BarrierMax they go past it to the log after that time, in which the database answered and
// nothing of the partition was settled. A backlog that is worked off, a lock and an outage are no such thing. What is spooled
// keeps its order all the same.
//
// # Exactly once
//
// A replay and the note up to which record its partition has been replayed are one transaction, under the partition's
// lock. Whatever fails after it, whoever replays the record again finds the note. A record with a tag is looked for by that
// first. Records are removed from the disk after that, a file at a time; the notes after the last file.
//
// # Who is authoritative
//
// The disk, for what is spooled; the database, for what is replayed. What Guard counts is derived from both and made anew
// by each process. A spool in which bytes were damaged is not appended to any more, and ends with its count.
//
// # Failure
//
// down is set by whoever finds that a probe gets no answer, and unset by Run alone, when one does and the schema is there.
// While it is set, nothing waits for the database. A replay that fails delays its partition; one that the database refuses
// is repeated record by record, and the record at fault is set aside after eight attempts within about a minute.
//
// # Concurrency
//
// Append is called by the committers, at most one for each partition. Run is one goroutine, which alone reads, replays,
// removes and adopts. State they share is under one mutex, never held over the disk or the database. Our own spool is made
// by whoever needs it and has the making token; a source counts the appends under way in it, and is removed only when there
// are none and it takes no more. A probe is shared by all that want one. The timer of a slow append runs a function that
// sets a flag and does not wait. Run returns after its last replay has, and closes the spools: the batcher must have
// stopped by then.
package outage
