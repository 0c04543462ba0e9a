package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"queen.internal/compose/local"
	"queen.internal/test/chaos/internal/stand"
)

// lock is a session that sits on rows which everybody wants.
var lock = Fault{
	Name: "lock", Code: "F7",
	About: "a session holds the row locks of partitions, of cursors, or of both, of all or of a half; 1 to 60 s",
	Draw: func(d *Draw) Dose {
		s := d.Stand
		tables := pick(d, []string{"partitions"}, []string{"cursors"}, []string{"partitions", "cursors"})
		part, which := pick(d, 1, 2), d.IntN(2)
		h := &holder{stand: s}
		return Dose{
			What: fmt.Sprintf("hold the locks of 1/%d of all %s", part, strings.Join(tables, " and ")),
			On:   append(edges([]string{local.Postgres}), local.Postgres),
			For:  d.between(time.Second, time.Minute), Busy: querying(s),
			Strike: func(ctx context.Context) (bool, error) {
				err := h.take(ctx, tables, part, which%part)
				for begun := time.Now(); deadlocked(err) && time.Since(begun) < patience; {
					err = errors.Join(h.leave(ctx), h.take(ctx, tables, part, which%part))
				}
				return err == nil && h.wanted(ctx), err
			},
			Heal: h.leave,
		}
	},
}

// lockRows take rows in the order in which everybody takes them.
var lockRows = map[string]string{
	"partitions": `SELECT FROM queen.partitions WHERE id % $1 = $2 ORDER BY id FOR UPDATE`,
	"cursors":    `SELECT FROM queen.cursors WHERE partition_id % $1 = $2 ORDER BY partition_id, subscription_id FOR UPDATE`,
}

// holder is the session. It belongs to one dose.
type holder struct {
	stand *stand.Stand
	conn  *pgxpool.Conn
}

// take locks rows of tables in a transaction.
func (h *holder) take(ctx context.Context, tables []string, part, which int) error {
	conn, err := h.stand.DB().Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect to hold locks: %w", err)
	}
	h.conn = conn
	if _, err := conn.Exec(ctx, `BEGIN`); err != nil {
		return fmt.Errorf("begin to hold locks: %w", err)
	}
	for _, table := range tables {
		if _, err := conn.Exec(ctx, lockRows[table], part, which); err != nil {
			return fmt.Errorf("take the locks of %s: %w", table, err)
		}
	}
	return nil
}

// deadlocked says that the session was chosen to give way: new rows take the locks of those that they point to, in whatever
// order they come.
func deadlocked(err error) bool {
	var state interface{ SQLState() string }
	return errors.As(err, &state) && state.SQLState() == "40P01"
}

// wanted returns once somebody waits for the session, and false when nobody comes.
func (h *holder) wanted(ctx context.Context) bool {
	for begun := time.Now(); time.Since(begun) < patience && ctx.Err() == nil; wait(ctx, 5*time.Millisecond) {
		var waited bool
		err := h.stand.DB().QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))`,
			int32(h.conn.Conn().PgConn().PID())).Scan(&waited)
		if err == nil && waited {
			return true
		}
	}
	return false
}

// leave gives everything back.
func (h *holder) leave(ctx context.Context) error {
	if h.conn == nil {
		return nil
	}
	_, err := h.conn.Exec(ctx, `ROLLBACK`)
	h.conn.Release()
	h.conn = nil
	if err != nil {
		return fmt.Errorf("give locks back: %w", err)
	}
	return nil
}
