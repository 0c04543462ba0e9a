package fault

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"queen.internal/compose/local"
	"queen.internal/test/chaos/internal/stand"
)

// database ends PostgreSQL, or sessions of it.
var database = Fault{
	Name: "database", Code: "F3",
	About: "kill -9 of the postmaster, an immediate stop, kill -9 of one session, pg_terminate_backend of all; down 0 to 20 s",
	Draw: func(d *Draw) Dose {
		s := d.Stand
		dose := Dose{
			On: []string{local.Postgres}, For: d.between(0, 20*time.Second), Busy: querying(s),
			Heal: func(ctx context.Context) error { return s.StartDatabase(ctx) },
		}
		switch d.IntN(4) {
		case 0:
			dose.What = "kill -9 of PostgreSQL"
			dose.Strike = func(context.Context) (bool, error) { return true, s.Stack.KillDatabase() }
		case 1:
			dose.What = "stop PostgreSQL at once"
			dose.Strike = func(ctx context.Context) (bool, error) { return true, stopAtOnce(ctx, s) }
		case 2:
			dose.What, dose.For = "kill -9 of one session of PostgreSQL", d.between(time.Second, 3*time.Second)
			dose.Strike = func(ctx context.Context) (bool, error) { return killSession(ctx, s) }
			dose.Heal = func(ctx context.Context) error { return awaitDatabase(ctx, s) }
		default:
			dose.What, dose.For = "end all sessions of PostgreSQL", d.between(0, time.Second)
			dose.Strike = func(ctx context.Context) (met bool, err error) {
				err = s.DB().QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) > 0 FROM pg_stat_activity WHERE usename = 'queen' AND pid <> pg_backend_pid()`).Scan(&met)
				return met, err
			}
			dose.Heal = func(ctx context.Context) error { return awaitDatabase(ctx, s) }
		}
		return dose
	},
}

// querying says whether any service waits for an answer of the database.
func querying(s *stand.Stand) func() bool {
	return func() bool {
		for _, p := range s.Pipes("", local.Postgres) {
			if p.Waiting() > 0 {
				return true
			}
		}
		return false
	}
}

// stopAtOnce is pg_ctl stop -m immediate.
func stopAtOnce(ctx context.Context, s *stand.Stand) error {
	pids, err := s.DatabasePIDs()
	if err != nil {
		return err
	}
	if err := s.SignalDatabase(pids[:1], syscall.SIGQUIT); err != nil {
		return err
	}
	for syscall.Kill(pids[0], 0) == nil && ctx.Err() == nil {
		wait(ctx, 5*time.Millisecond)
	}
	return nil
}

// killSession kills a session that is at work, if one is: the server then ends all others and recovers.
func killSession(ctx context.Context, s *stand.Stand) (bool, error) {
	var pid int
	err := s.DB().QueryRow(ctx, `SELECT pid FROM pg_stat_activity WHERE usename = 'queen' ORDER BY state = 'active' DESC, pid LIMIT 1`).Scan(&pid)
	if err != nil {
		return false, fmt.Errorf("look for a session to kill: %w", err)
	}
	return true, s.SignalDatabase([]int{pid}, syscall.SIGKILL)
}

// awaitDatabase returns when the database answers again.
func awaitDatabase(ctx context.Context, s *stand.Stand) error {
	for {
		_, err := s.DB().Exec(ctx, `SELECT 1`)
		if err == nil || ctx.Err() != nil {
			return err
		}
		wait(ctx, 20*time.Millisecond)
	}
}
