// Package state calls the procedures that keep what holds for all processes of a cell: switches that are on or off. It is
// their only caller and keeps no state itself; who obeys which switch, and what happens while the database is away, is
// package modes' business.
package state

import (
	"context"

	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
)

// Store calls the procedures on a pool, one borrowed connection a call. It is safe for concurrent use.
type Store struct{ pool *pg.Pool }

// New returns a Store on pool, which the caller closes.
func New(pool *pg.Pool) *Store { return &Store{pool: pool} }

// Switch is a row. The one of a key with the higher version is the later one.
type Switch struct {
	On      bool
	Version int64
}

const readSwitchesSQL = `SELECT key, is_enabled, version FROM queen.read_switches($1)`

// Switches reads the rows of these keys; one that was never set is missing. Errors have a kind.
func (s *Store) Switches(ctx context.Context, keys []string) (map[string]Switch, error) {
	found := make(map[string]Switch, len(keys))
	rows, err := s.pool.Query(ctx, readSwitchesSQL, keys)
	if err != nil {
		return nil, pg.Wrap("read switches", err)
	}
	var key string
	var row Switch
	_, err = pgx.ForEachRow(rows, []any{&key, &row.On, &row.Version}, func() error {
		found[key] = row
		return nil
	})
	if err != nil {
		return nil, pg.Wrap("read switches", err)
	}
	return found, nil
}

const offerSwitchSQL = `SELECT is_enabled, at_version FROM queen.offer_switch($1, $2, $3)`

// Offer sets a switch unless the row is of the same version or a later one, and returns what holds then. Repeating it is
// harmless. Errors have a kind; with one, it may have been set.
func (s *Store) Offer(ctx context.Context, key string, offered Switch) (now Switch, err error) {
	err = s.pool.QueryRow(ctx, offerSwitchSQL, key, offered.On, offered.Version).Scan(&now.On, &now.Version)
	return now, pg.Wrap("set a switch", err)
}
