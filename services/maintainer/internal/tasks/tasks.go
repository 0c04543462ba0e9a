// Package tasks is the list of what the maintainer does, and when.
package tasks

import (
	"time"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/store/retention"
	"queen.internal/pkg/store/task"
	"queen.internal/services/maintainer/internal/claim"
	"queen.internal/services/maintainer/internal/sweep"
)

const (
	// lease is how long a maintainer that is silent keeps others from its task. A step takes a small part of it.
	lease = 30 * time.Second
	// sweepPeriod is enough for what is kept for hours or days.
	sweepPeriod = time.Minute
)

// Options are what an operator may choose.
type Options struct {
	Batch int // rows a step removes at most
}

// List is every task, worked on pool.
func List(pool *pg.Pool, o Options) []claim.Task {
	removing := sweep.Sweeper{Store: retention.New(pool), Batch: o.Batch}
	return []claim.Task{
		{Name: "transactions", Terms: task.Terms{Period: sweepPeriod, Lease: lease}, Work: removing.Transactions},
	}
}
