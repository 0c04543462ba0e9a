package log

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
)

// Verdicts of AppendSpooled alone.
const (
	Settled      Verdict = 7 // the records up to Base were settled before; nothing was written
	QueueDeleted Verdict = 8 // a queue of that name was deleted after the oldest record had been spooled; nothing was written
	Noted        Verdict = 9 // there was nothing to append
)

// Target is the records of a spool that come for one partition.
type Target struct {
	Partition   Partition
	First, Last int64         // sequences
	Age         time.Duration // of the oldest
}

const appendSpooledSQL = `SELECT partition_id, verdict, coalesce(base_offset, 0), created_at, duplicate_positions
FROM queen.append_spooled($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`

// AppendSpooled writes runs and notes which records of the spool they were, in one transaction of one server call. Targets
// have distinct partitions; one without runs is only noted. checkTags says that the tags may have committed before. The
// error is the driver's, as Append's. Originals of duplicates are not told.
func (s *Store) AppendSpooled(ctx context.Context, spool uuid.UUID, targets []Target, runs []Run, checkTags bool) ([]Placed, error) {
	n := len(targets)
	ids, uids := make([]int64, n), make(uuids, n)
	firsts, lasts, ages := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, t := range targets {
		ids[i], uids[i], firsts[i], lasts[i], ages[i] = t.Partition.ID, wireUUID(t.Partition.UID), t.First, t.Last, t.Age.Milliseconds()
	}
	c := NewColumns(runs)
	conn, err := s.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, appendSpooledSQL, wireUUID(spool), ids, uids, firsts, lasts, ages,
		c.Partitions, c.UIDs, c.Tags, c.Counts, c.RawBytes, c.Codecs, c.Payloads, c.Hashes, checkTags, c.Sealed)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Placed, error) {
		var p Placed
		var created *time.Time
		err := row.Scan(&p.Partition, &p.Verdict, &p.Base, &created, &p.Positions)
		if created != nil {
			p.CreatedAt = *created
		}
		return p, err
	})
}

// Waiting is a queue for which something was spooled.
type Waiting struct {
	Deleted      bool // one of its name was deleted since
	Deduplicates bool // what has the name now, or will have it
}

const waitingSQL = `SELECT place, deleted, deduplicates FROM queen.spooled_queues($1, $2, $3)`

// Waiting says what became of queues for which something was spooled that long ago. Errors have a kind.
func (s *Store) Waiting(ctx context.Context, queues []Queue, ages []time.Duration) ([]Waiting, error) {
	tenants, names, millis := make(uuids, len(queues)), make([]string, len(queues)), make([]int64, len(queues))
	for i, q := range queues {
		tenants[i], names[i], millis[i] = wireUUID(q.Tenant), q.Name, ages[i].Milliseconds()
	}
	conn, err := s.Acquire(ctx)
	if err != nil {
		return nil, pg.Wrap("look for deleted queues", err)
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, waitingSQL, tenants, names, millis)
	if err != nil {
		return nil, pg.Wrap("look for deleted queues", err)
	}
	found := make([]Waiting, len(queues))
	var place int
	var w Waiting
	_, err = pgx.ForEachRow(rows, []any{&place, &w.Deleted, &w.Deduplicates}, func() error {
		found[place-1] = w
		return nil
	})
	return found, pg.Wrap("look for deleted queues", err)
}

const (
	forgetSpoolSQL = `SELECT queen.forget_spool($1, $2)`
	// forgottenAtOnce bounds the notes that one statement removes.
	forgottenAtOnce = 5000
)

// ForgetSpool removes what is noted of a spool that is empty and will never be read again. Errors have a kind.
func (s *Store) ForgetSpool(ctx context.Context, spool uuid.UUID) error {
	for {
		var removed int
		if err := s.pool.QueryRow(ctx, forgetSpoolSQL, wireUUID(spool), forgottenAtOnce).Scan(&removed); err != nil || removed == 0 {
			return pg.Wrap("forget a spool", err)
		}
	}
}

// Flagged is a queue whose pushes are treated otherwise than most while the database is away.
type Flagged struct {
	Queue
	Encryption bool
	NoSpool    bool
}

const (
	flaggedSQL = `SELECT id, tenant, name, encryption_enabled, NOT spool_enabled FROM queen.flagged_queues($1, $2)`
	// flaggedAtOnce bounds the queues that one statement lists.
	flaggedAtOnce = 5000
)

// FlaggedQueues lists them. Errors have a kind.
func (s *Store) FlaggedQueues(ctx context.Context) ([]Flagged, error) {
	var found []Flagged
	for after := int64(0); ; {
		conn, err := s.Acquire(ctx)
		if err != nil {
			return nil, pg.Wrap("list queues with flags", err)
		}
		before := len(found)
		rows, err := conn.Query(ctx, flaggedSQL, after, flaggedAtOnce)
		if err == nil {
			var f Flagged
			_, err = pgx.ForEachRow(rows, []any{&after, &f.Tenant, &f.Name, &f.Encryption, &f.NoSpool}, func() error {
				found = append(found, f)
				return nil
			})
		}
		conn.Release()
		if err != nil {
			return nil, pg.Wrap("list queues with flags", err)
		}
		if len(found)-before < flaggedAtOnce {
			return found, nil
		}
	}
}
