package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"queen.internal/pkg/backoff"
)

// Retries while the database is away: quick at first, because a restart takes a second, then calm.
var waitPolicy = backoff.Policy{Min: 100 * time.Millisecond, Max: 2 * time.Second}

// waitLogInterval is how often a wait reports that it goes on.
const waitLogInterval = 10 * time.Second

// Ping makes one round trip on a pooled connection. Its error has a kind.
func Ping(ctx context.Context, pool *Pool) error {
	if _, err := pool.Exec(ctx, "-- ping"); err != nil {
		return Wrap("ping the database", err)
	}
	return nil
}

// WaitReady returns when the database answers, when ctx ends (with its cause), or with an error that waiting does not
// heal: FatalAtBoot is true of it. Meanwhile it logs why it waits, at once and every 10 s.
func WaitReady(ctx context.Context, pool *Pool, logger *slog.Logger) error {
	var logged time.Time
	for attempt := 0; ; attempt++ {
		err := Ping(ctx, pool)
		switch {
		case err == nil:
			if attempt > 0 {
				logger.InfoContext(ctx, "database answers", "attempts", attempt+1)
			}
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case FatalAtBoot(err):
			return BootError(pool, err)
		}
		if time.Since(logged) >= waitLogInterval {
			logged = time.Now()
			logger.WarnContext(ctx, "waiting for the database", "err", Reason(err))
		}
		if err := backoff.Sleep(ctx, waitPolicy.Next(attempt)); err != nil {
			return context.Cause(ctx)
		}
	}
}

// BootError makes an error that is FatalAtBoot the one line a process ends with: who was refused where, and the server's
// own words.
func BootError(pool *Pool, err error) error {
	conn := pool.Config().ConnConfig
	var state *pgconn.PgError
	var old *ServerTooOldError
	switch {
	case errors.As(err, &old):
		err = old
	case errors.As(err, &state):
		err = state
	}
	return fmt.Errorf("PostgreSQL at %s:%d, user %q, database %q: %w", conn.Host, conn.Port, conn.User, conn.Database, err)
}
