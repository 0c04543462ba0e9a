package history_test

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"queen.internal/test/history"
)

func (l *load) connect() *pgxpool.Pool {
	pool, err := pgxpool.New(context.Background(), l.cell.Stack.DSN())
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(pool.Close)
	return pool
}

// drained says whether the group's cursor stands at the end of every partition.
func (l *load) drained(db *pgxpool.Pool, group string) bool {
	is, err := history.Drained(l.Context(), db, l.queue, group)
	if err != nil {
		l.Error(err)
		return true
	}
	return is
}

// readLog reads what is stored, from the tables.
func (l *load) readLog() {
	log, wrong, err := history.ReadLog(l.Context(), l.connect(), l.queue)
	if err != nil {
		l.Fatal(err)
	}
	for _, v := range wrong {
		l.Error(v)
	}
	l.History().Log = log
}
