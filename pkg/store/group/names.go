package group

import (
	"context"

	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
)

// Name is what a subscription is called within its tenant.
type Name struct{ Queue, Group string }

const namesSQL = `SELECT subscription_id, queue_name, group_name FROM queen.subscription_names($1)`

// Names tells the names of subscriptions by ID; those that no longer exist are absent. Errors have a kind.
func (s *Store) Names(ctx context.Context, subscriptions []int64) (map[int64]Name, error) {
	rows, err := s.pool.Query(ctx, namesSQL, subscriptions)
	if err != nil {
		return nil, pg.Wrap("name subscriptions", err)
	}
	names := make(map[int64]Name, len(subscriptions))
	var id int64
	var name Name
	_, err = pgx.ForEachRow(rows, []any{&id, &name.Queue, &name.Group}, func() error {
		names[id] = name
		return nil
	})
	return names, pg.Wrap("name subscriptions", err)
}
