package inspect

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/store/log"
)

const transactionSQL = `SELECT coalesce(message_offset, -1), coalesce(next_before, 0) FROM queen.find_transaction($1, $2, $3, $4)`

// Transaction looks for a transaction hash among the newest hash rows of a partition that begin before an offset, limit of
// them. offset is the newest message with it, negative when it is not among them; then next is where to go on, 0 at the
// end. Errors have a kind.
func (s *Store) Transaction(ctx context.Context, partition int64, hash uuid.UUID, before int64, limit int) (offset, next int64, err error) {
	err = s.pool.QueryRow(ctx, transactionSQL, partition, wireUUID(hash), before, limit).Scan(&offset, &next)
	return offset, next, pg.Wrap("look for a transaction", err)
}

const unhashedSQL = `SELECT base_offset, end_offset, created_at, tag, codec, raw_bytes, payload FROM queen.unhashed_segments($1, $2, $3, $4)`

// Unhashed reads the newest segments of a partition that begin before an offset and are older than its hashes: at most
// limit, and maxBytes before compression, but one in any case. Errors have a kind.
func (s *Store) Unhashed(ctx context.Context, partition, before int64, limit int, maxBytes int64) ([]log.Segment, error) {
	rows, err := s.pool.Query(ctx, unhashedSQL, partition, before, limit, maxBytes)
	if err != nil {
		return nil, pg.Wrap("read old segments", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (log.Segment, error) {
		var g log.Segment
		err := row.Scan(&g.Base, &g.End, &g.CreatedAt, &g.Tag, &g.Codec, &g.RawBytes, &g.Blob)
		return g, err
	})
	return found, pg.Wrap("read old segments", err)
}
