package log

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/segment"
)

// Verdict is what an append found at one partition.
type Verdict int16

// The verdicts of append. A partition that is absent from the answer was busy, or no longer exists.
const (
	Appended   Verdict = iota + 1
	Duplicates         // nothing was written
	Gone               // the queue was deleted; nothing was written
	Found              // the tag is there: an earlier attempt had committed
	MustSeal           // the queue has encryption on and a run is not sealed; nothing was written
)

// Run is one segment to append. The runs of one partition stand together and share a tag.
type Run struct {
	Partition Partition
	Tag       int64
	Segment   segment.Encoded
	Hashes    []uuid.UUID // of the transaction ids, one per message, distinct within the partition's runs
	Sealed    bool        // every payload is encrypted
	Voucher   *Voucher    // of the partition's first run; nil for none
}

// Voucher says that none of an append's hashes is among those of the messages First..Last of its partition. The newest of
// these, Base..Last, were written by the append with Tag, and the oldest were committed at Since.
type Voucher struct {
	First, Base, Last int64
	Tag               int64
	Since             time.Time
}

// Placed is the verdict on one partition.
type Placed struct {
	Partition int64
	Verdict   Verdict
	Base      int64     // offset of the first message (Appended, Found)
	CreatedAt time.Time // of all its messages (Appended, Found)
	// Previous is the tag of the append that Base follows (Appended); nil when there was none.
	Previous *int64
	// Duplicates: 1-based positions within the partition's messages, and the offsets of the originals.
	Positions []int32
	Originals []int64
}

// AppendOptions says how to meet partitions that are locked, and tags that may be known.
type AppendOptions struct {
	Wait      bool // wait for locked partitions; otherwise they are absent from the answer
	CheckTags bool // these tags may have committed before
}

const appendSQL = `SELECT partition_id, verdict, coalesce(base_offset, 0), created_at, duplicate_positions, duplicate_offsets, previous_tag
FROM queen.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`

// connectionWait bounds the wait for a connection of the pool: a push that gets none is told so while its client listens.
const connectionWait = time.Second

// ErrNotSent is in the chain of an error of Append that ended before the call was sent.
var ErrNotSent = errors.New("no connection")

// Unknown says that err, of an Append, leaves it open whether the call committed.
func Unknown(err error) bool { return !errors.Is(err, ErrNotSent) && pg.CommitUnknown(err) }

// Locked says that err, of an Append that waited, is a partition that stayed locked.
func Locked(err error) bool {
	var state *pgconn.PgError
	return errors.As(err, &state) && state.Code == "55P03"
}

// Contended says that err is the doing of another session alone: a lock that stayed taken, a deadlock, a conflict. Nothing
// was committed, and the same call may succeed at once.
func Contended(err error) bool {
	var state *pgconn.PgError
	return errors.As(err, &state) && (state.Code == "55P03" || state.Code == "40P01" || state.Code == "40001")
}

// Append writes runs in one transaction of one server call. The error is the driver's, not yet of a kind; see Unknown.
func (s *Store) Append(ctx context.Context, runs []Run, opts AppendOptions) ([]Placed, error) {
	p := NewColumns(runs)
	conn, err := s.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, appendSQL, p.Partitions, p.UIDs, p.Tags, p.Counts, p.RawBytes, p.Codecs, p.Payloads, p.Hashes,
		opts.Wait, opts.CheckTags, p.Sealed, p.VouchFirsts, p.VouchSince, p.VouchBases, p.VouchLasts, p.VouchTags)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Placed, error) {
		var p Placed
		var created *time.Time
		err := row.Scan(&p.Partition, &p.Verdict, &p.Base, &created, &p.Positions, &p.Originals, &p.Previous)
		if created != nil {
			p.CreatedAt = *created
		}
		return p, err
	})
}

// Acquire borrows a connection, which the caller releases. It does not wait long; the error has ErrNotSent in its chain.
func (s *Store) Acquire(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectionWait)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	return conn, nil
}
