package inspect

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
)

// Filter narrows a search for partitions; what is empty does not.
type Filter struct{ Queue, Partition, Namespace, Task string }

// Written is a partition with what a listing tells of it and its queue.
type Written struct {
	ID              int64
	UID             uuid.UUID
	Name            string
	Queue           string
	Namespace, Task string
	Priority        int32
	LastCreatedAt   time.Time
}

const writtenSQL = `SELECT partition_id, partition_uid, partition_name, queue_name, namespace, task, priority, last_created_at
FROM queen.recent_partitions($1, $2, $3, $4, $5, $6, $7)`

// WrittenSince gives the partitions of a tenant that were written at or after a time, at most limit, the latest first.
// Errors have a kind.
func (s *Store) WrittenSince(ctx context.Context, tenant uuid.UUID, f Filter, from time.Time, limit int) ([]Written, error) {
	rows, err := s.pool.Query(ctx, writtenSQL, wireUUID(tenant), optional(f.Queue), optional(f.Partition), optional(f.Namespace),
		optional(f.Task), from, limit)
	if err != nil {
		return nil, pg.Wrap("find partitions", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Written, error) {
		var w Written
		err := row.Scan(&w.ID, &w.UID, &w.Name, &w.Queue, &w.Namespace, &w.Task, &w.Priority, &w.LastCreatedAt)
		return w, err
	})
	return found, pg.Wrap("find partitions", err)
}

// Run is the messages Base..End of a partition, committed together.
type Run struct {
	Partition, Base, End int64
	CreatedAt            time.Time
}

const runsSQL = `SELECT partition_id, base_offset, end_offset, created_at FROM queen.recent_runs($1, $2, $3, $4)`

// Runs gives the runs of partitions that were committed at or after from and, unless that is zero, before before; of each
// partition the newest limit. Errors have a kind.
func (s *Store) Runs(ctx context.Context, partitions []int64, from, before time.Time, limit int) ([]Run, error) {
	rows, err := s.pool.Query(ctx, runsSQL, partitions, from, optionalTime(before), limit)
	if err != nil {
		return nil, pg.Wrap("find messages", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Run, error) {
		var r Run
		err := row.Scan(&r.Partition, &r.Base, &r.End, &r.CreatedAt)
		return r, err
	})
	return found, pg.Wrap("find messages", err)
}

// Address is one message of a run that begins at Base.
type Address struct{ Partition, Base, Offset int64 }

const hashesSQL = `SELECT place, hash FROM queen.message_hashes($1, $2, $3)`

// Hashes gives the transaction hashes of messages, the zero UUID where they were removed meanwhile. Errors have a kind.
func (s *Store) Hashes(ctx context.Context, messages []Address) ([]uuid.UUID, error) {
	partitions, bases, offsets := make([]int64, len(messages)), make([]int64, len(messages)), make([]int64, len(messages))
	for i, m := range messages {
		partitions[i], bases[i], offsets[i] = m.Partition, m.Base, m.Offset
	}
	rows, err := s.pool.Query(ctx, hashesSQL, partitions, bases, offsets)
	if err != nil {
		return nil, pg.Wrap("read hashes", err)
	}
	hashes := make([]uuid.UUID, len(messages))
	var place int
	var hash uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&place, &hash}, func() error {
		hashes[place-1] = hash
		return nil
	})
	return hashes, pg.Wrap("read hashes", err)
}

const deadSQL = `SELECT queen.dead_offsets($1, $2)`

// Dead says of each message whether some group has given it up. Errors have a kind.
func (s *Store) Dead(ctx context.Context, messages []Address) ([]bool, error) {
	partitions, offsets := make([]int64, len(messages)), make([]int64, len(messages))
	for i, m := range messages {
		partitions[i], offsets[i] = m.Partition, m.Offset
	}
	rows, err := s.pool.Query(ctx, deadSQL, partitions, offsets)
	if err != nil {
		return nil, pg.Wrap("look for dead letters", err)
	}
	dead := make([]bool, len(messages))
	var place int
	_, err = pgx.ForEachRow(rows, []any{&place}, func() error {
		dead[place-1] = true
		return nil
	})
	return dead, pg.Wrap("look for dead letters", err)
}

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
