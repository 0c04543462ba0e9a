// Package admin calls the procedures that change queues as a whole rather than their messages. It is their only caller;
// what each does is written in sql/broker/procedures. It keeps no state.
package admin

import "queen.internal/pkg/pg"

// Store calls the procedures on a pool, one borrowed connection a call. It is safe for concurrent use.
type Store struct{ pool *pg.Pool }

// New returns a Store on pool, which the caller closes.
func New(pool *pg.Pool) *Store { return &Store{pool: pool} }
