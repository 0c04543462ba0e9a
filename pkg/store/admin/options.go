package admin

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/queue"
)

const optionsSQL = `SELECT ` + optionColumns + ` FROM queen.queue_options($1)`

// Options are the options in force of a queue, by its number; none when it was deleted. Errors have a kind.
func (s *Store) Options(ctx context.Context, queueID int64) (o queue.Options, found bool, err error) {
	err = s.pool.QueryRow(ctx, optionsSQL, queueID).Scan(optionFields(&o)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return queue.Options{}, false, nil
	}
	return o, err == nil, pg.Wrap("read options", err)
}
