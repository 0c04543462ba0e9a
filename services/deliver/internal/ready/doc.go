// Package ready remembers where consumer groups may find work, so that a pop asks the database about a few partitions
// instead of searching all of them. It only saves work: whether a partition has a message for a group, and who gets it, is
// decided by the claim in SQL. Losing everything here costs one search.
//
// # The ring
//
// For each (tenant, queue, group) that is popped there is a Ring. Each partition it knows of is in one state:
//
//	queued   believed to have work; offered to pops in turn
//	taken    offered to one pop, whose claim has not returned; nobody else gets it
//	later    leased, hidden by a delay or a window, or left to a peer, until a known time
//
// Take moves entries from queued to taken, Return from taken to where the claim's verdict says: a partition that was
// leased stays known, one that had nothing is forgotten. News about a taken entry (an ack that freed it, a
// search that found it) cannot wait for the verdict, which may be older; the entry is marked, and a marked entry is queued
// again when the verdict was that it is leased or has nothing. A search does not look at delays, so that it found a hidden
// partition is no news; that the queue was configured, or cursors were moved, since the claim began is, and has what is
// hidden tried again (Ring.forgot). An entry that the claim did not try goes back to the front.
//
// An ack tells whether messages are left past the cursor, so the end of a lease either offers the partition again or has it
// forgotten. A push whose news comes in between is not lost: an entry knows the highest offset it heard of.
//
// A ring holds a bounded number of entries. What does not fit is noted as lost, and a walk over all partitions finds it.
//
// # What a ring knows
//
// Ring.known is a time by the database's clock. The ring knows of every partition that had work for the group in some
// snapshot that shows all writes from before then: as an entry, or as work that others have consumed since. So a search
// walks only what was written since (queen.find_candidates, an index on the time of writing in steps of 15 s), and looks
// again at the partitions it knows to be leased, because whoever ended the lease may not have been heard. When the walk is
// at its end, known moves on to when it began. It may take several searches: a search ends early when there is enough to
// take, and the next goes on.
//
// From when on writes may be missing in a snapshot is told by horizon: an append reads its clock when it has a transaction
// number already, so transactions that the snapshot did not see and whose numbers were given out after a moment wrote
// after it. A transaction that never ends counts for two minutes; an append that takes longer from its clock to its commit
// is left to the sweep.
//
// Everything is walked when a ring is new, when entries had no room, when the group's cursors were moved elsewhere
// (subscriptions.moves), when deliveries were paused, when the database's clock or its transactions fell back, when another
// server took over (Index.FailedOver), and when Index.Changed says so: then known is zero, and answers that are under way count for nothing, because they belong to a
// pass that is no longer the ring's. Cursors that are moved while everything is walked do not have that walk begin anew,
// or it would not end before they rest: each page is true when it is answered, and the next search walks all once more.
// The sweep walks everything as well, always, slowly.
//
// # Who asks the database
//
// Rings do not. They put questions to the finder, which asks about many rings in one call and whose answers are true in one
// snapshot. Walks over everything are made by one worker, a page of 5000 partitions at a time, ring after ring, so that a
// process that starts, or a mesh that returns, costs the database one connection.
//
// # What a pop may rely on
//
// A pop that leaves empty-handed has had the answer of a search that began after the pop did and found nothing left to
// offer. So a push that was committed before the pop is found, whatever the ring believed. Searches are shared: at most one
// runs for each ring, and a pop that finds one under way waits for the next, because the one under way may have begun
// before the push. A ring that is busy enough never to be empty is searched every Options.Refresh all the same, or a
// partition that nobody announced would starve behind those that are.
//
// A walk over a million partitions may take longer than a call. So a search that has found something ends soon, with what
// it has, and one whose time is over before it has found anything says that it is unfinished: the next one goes on where it
// has come to. For polls that wait, the backstop makes the next at once, until there is something or the walk is at its end.
//
// # What a parked poll may rely on
//
// Whatever is queued wakes a poll, and a poll that leaves passes on what it leaves behind. A poll that parks again may
// leave something too, so each round of the backstop ends with waking one poll if anything is queued. When hints may have
// been missed (Index.Missed) a ring in use is searched though no poll is parked yet: one may have looked just before.
//
// # Several processes
//
// The news of a push reaches every process that has a ring for the queue, and one claim is enough. So each ring knows which
// peers have taken something in its group during the last ten seconds, and one of them all, chosen by the partition's number
// and the server ids (mesh.Before), goes first; the others hold the partition back for five milliseconds, or as long as two claims take, and hear meanwhile
// that it was leased. Whoever goes first and has no poll parked declines, which ends the holding back. An ended lease is
// left to the process that ended it in the same way.
//
// None of this is needed for anybody to be served: what is held back is offered when the time is over, a peer's word about a
// lease is believed for a second, and a pop that may not wait takes what is held back as well.
//
// # Polls that wait for company
//
// A queue may ask that a poll which would get less than a full batch is held for a while (minPopWaitTime). Such polls park
// at the ring's Filling, not at its spot, so that news never wakes one of them in place of a poll that would take the work.
// Their backstop searches and estimates once for all of them what the ring has to offer.
//
// # Who owns which goroutine
//
// Index.Run drops idle rings; it starts the finder's workers and the sweep and waits for them. A search runs on the
// goroutine of the pop that needs it, or of a worker of the wait.Lot; it is not cancelled with its request, since others
// wait for it, and is bounded by Options.Timeout.
//
// # What may block, and under which lock
//
// Index.mu guards the maps, each discovery's mu its rings, each ring's mu its entries, the lot's mutex the parked polls; the
// finder's mutexes guard questions and the horizon, and are held with no other.
// They are taken in the order discovery, ring, lot; Index.mu is never held together with another. None is held during a
// call of the store: that a search is under way is a field of the ring.
//
// # Shutdown
//
// Rings hold nothing that must be written down. Run ends with its context; a search under way ends with its request.
package ready
