package log

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
)

// HashRow is the transaction hashes of one stored segment: of the messages Base..End.
type HashRow struct {
	Base, End int64
	CreatedAt time.Time
	Tag       int64
	Hashes    []uuid.UUID
}

const readHashesSQL = `SELECT base_offset, end_offset, created_at, tag, hashes FROM queen.read_hashes($1, $2, $3, $4)`

// ReadHashes reads the newest hash rows of a partition, newest first: those above the offset after and younger than
// since, at most limit rows. Errors have a kind.
func (s *Store) ReadHashes(ctx context.Context, partition, after int64, since time.Time, limit int) ([]HashRow, error) {
	rows, err := s.pool.Query(ctx, readHashesSQL, partition, after, since, limit)
	if err != nil {
		return nil, pg.Wrap("read hashes", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (HashRow, error) {
		var r HashRow
		err := row.Scan(&r.Base, &r.End, &r.CreatedAt, &r.Tag, &r.Hashes)
		return r, err
	})
	return found, pg.Wrap("read hashes", err)
}
