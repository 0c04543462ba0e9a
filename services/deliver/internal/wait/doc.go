// Package wait parks long polls. It knows nothing of queues: polls that wait for the same thing share a Spot, a Spot has
// a Source that can look for work, and one Lot holds every spot of the process.
//
// # What a parked poll costs
//
// One entry in a list and one timer. It holds no database connection and no goroutine but its own request's, which
// sleeps in Park. The search for work that nobody announced (the backstop) is done once for each spot that has a parked
// poll, not once for each poll: Source.Recheck runs after Intervals.Initial, and after a few rounds that woke nobody
// the pause doubles up to Intervals.Max. A wake starts the count anew.
//
// # Who owns which goroutine
//
// Run is the dispatcher: it sleeps until the earliest time in the schedule, tells sources what has become due, and hands
// rechecks to a fixed number of workers that it started and waits for. Park and Wake run on their callers' goroutines.
//
// # What may block
//
// One mutex guards the schedule, the lists of parked polls and the versions. Nothing is called under it: not a source,
// not a channel operation that could wait. A caller may therefore hold a lock of its own while it calls Wake, Due or
// Version, as long as its source takes that lock only in Due and Recheck, which are called without ours. A slow
// database delays rechecks alone: they queue up behind the workers, each spot at most once.
//
// # Why no wake is lost
//
// A poll reads Version before it looks for work and passes it to Park. Wake first adds one to the version, so a wake that
// falls between looking and parking makes Park return at once. A poll that was chosen by a wake but leaves for another
// reason (its deadline, its client) passes the wake on to the next. A poll that was woken and found nothing keeps its
// place: it parks before all that came later.
//
// # Shutdown
//
// Polls learn of a drain by the channel given to Park and leave by themselves. When Run's context ends, the dispatcher
// stops, the workers finish the recheck in hand (whose context is the same and has ended), and Run returns. Polls parked
// at that time stay until their deadline, their client or the drain ends them, so a stop drains first.
package wait
