package inspect

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
)

// Removed counts messages that went, by the rule.
type Removed struct {
	Aged, Completed, Evicted int64
	Unread                   int64 // of Aged and Evicted: somebody had still to consume them
}

// RemovedIn is what went in a span of time.
type RemovedIn struct {
	Removed
	Begin time.Time
	Steps int64
}

const retentionSeriesSQL = `SELECT bucket, aged, completed, evicted, unread, steps FROM queen.retention_series($1, $2, $3, $4, $5)`

// RetentionSeries tells what went of a tenant's queues, or of one of them, from a time on and before another, in spans of
// width, whole minutes. A span in which nothing went is left out. Errors have a kind.
func (s *Store) RetentionSeries(ctx context.Context, tenant uuid.UUID, queueName string, from, before time.Time, width time.Duration) ([]RemovedIn, error) {
	rows, err := s.pool.Query(ctx, retentionSeriesSQL, wireUUID(tenant), optional(queueName), from, before, int(width.Minutes()))
	if err != nil {
		return nil, pg.Wrap("read the history of retention", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r RemovedIn, err error) {
		return r, row.Scan(&r.Begin, &r.Aged, &r.Completed, &r.Evicted, &r.Unread, &r.Steps)
	})
	return found, pg.Wrap("read the history of retention", err)
}

// Held is what holds up a queue: a group that has not consumed what could have gone.
type Held struct {
	Group      string
	Since      time.Time // when the oldest of that would have gone
	Partitions int64     // held by any group, at most 10 000
}

// RemovedOf is what went of a queue, and who holds it up.
type RemovedOf struct {
	Removed
	Queue      string
	Partitions int64 // idle ones
	Held       *Held // nil: nobody
}

const retentionQueuesSQL = `SELECT queue_name, aged, completed, evicted, unread, partitions, held_by, held_since, held_partitions
FROM queen.retention_queues($1, $2, $3, $4, $5)`

// RetentionQueues tells it queue by queue, at most limit by name: those from which something went or that are held up now.
// Errors have a kind.
func (s *Store) RetentionQueues(ctx context.Context, tenant uuid.UUID, queueName string, from, before time.Time, limit int) ([]RemovedOf, error) {
	rows, err := s.pool.Query(ctx, retentionQueuesSQL, wireUUID(tenant), optional(queueName), from, before, limit)
	if err != nil {
		return nil, pg.Wrap("read what retention did to queues", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r RemovedOf, err error) {
		var group *string
		var since *time.Time
		var partitions int64
		err = row.Scan(&r.Queue, &r.Aged, &r.Completed, &r.Evicted, &r.Unread, &r.Partitions, &group, &since, &partitions)
		if err == nil && group != nil && since != nil {
			r.Held = &Held{Group: *group, Since: *since, Partitions: partitions}
		}
		return r, err
	})
	return found, pg.Wrap("read what retention did to queues", err)
}
