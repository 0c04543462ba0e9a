// Package tasks is the list of what the maintainer does, and when.
package tasks

import (
	"time"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/store/retention"
	"queen.internal/pkg/store/task"
	"queen.internal/services/maintainer/internal/claim"
	cycle "queen.internal/services/maintainer/internal/retention"
	"queen.internal/services/maintainer/internal/sweep"
)

const (
	// lease is how long a maintainer that is silent keeps others from its task. A step takes a small part of it.
	lease = 30 * time.Second
	// sweepPeriod is enough for what is kept for hours or days.
	sweepPeriod = time.Minute
	// reapPeriod is how soon the room of a deleted queue is given back, after the minute that it rests.
	reapPeriod = 10 * time.Second
	// transactionAge is how long a transaction is remembered, so that a request which comes again is recognised.
	transactionAge = 24 * time.Hour
)

// Options are what an operator may choose.
type Options struct {
	Retention   time.Duration // from one cycle of the queues' rules to the next
	Batch       int           // rows a step removes at most
	Parallelism int           // queues that are worked at once
	IdleAge     time.Duration // after which an empty partition goes; 0 keeps them
	LetterAge   time.Duration // after which a dead letter goes; 0 keeps them
	HistoryAge  time.Duration // of what was removed
	MarkAge     time.Duration // for which a deleted queue is remembered
	Meter       *cycle.Meter  // nil: nobody counts
}

// List is every task, worked on pool.
func List(pool *pg.Pool, o Options) []claim.Task {
	store := retention.New(pool)
	rules := cycle.Cycle{Store: store, Batch: o.Batch, Parallelism: o.Parallelism, Meter: o.Meter}
	removing := sweep.Sweeper{Store: store, Batch: o.Batch}
	slowly := task.Terms{Period: sweepPeriod, Lease: lease}
	list := []claim.Task{
		{Name: "retention", Terms: task.Terms{Period: o.Retention, Lease: lease}, Work: rules.Work},
		{Name: "deleted_queues", Terms: task.Terms{Period: reapPeriod, Lease: lease}, Work: removing.DeletedQueues},
		{Name: "deleted_groups", Terms: slowly, Work: removing.OrphanCursors},
		{Name: "deleted_marks", Terms: slowly, Work: removing.Aged("queues_forgotten", o.MarkAge, store.ForgetDeletedQueues)},
		{Name: "transactions", Terms: slowly, Work: removing.Aged("transactions_deleted", transactionAge, store.RemoveTransactions)},
		{Name: "retention_history", Terms: slowly, Work: removing.Aged("history_deleted", o.HistoryAge, store.RemoveHistory)},
	}
	if o.IdleAge > 0 {
		list = append(list, claim.Task{Name: "idle_partitions", Terms: slowly, Work: removing.IdlePartitions(o.IdleAge)})
	}
	if o.LetterAge > 0 {
		list = append(list, claim.Task{Name: "dead_letters", Terms: slowly, Work: removing.Aged("dead_letters_deleted", o.LetterAge, store.ExpireDeadLetters)})
	}
	return list
}
