package claim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/store/task"
	"queen.internal/pkg/testkit"
)

// playVariable makes this binary a maintainer of one task; it holds the name under which the process is known to the test.
const playVariable = "QUEEN_TEST_PLAY"

func TestMain(m *testing.M) {
	if name := os.Getenv(playVariable); name != "" {
		fmt.Fprintln(os.Stderr, play(name))
		os.Exit(1)
	}
	pgtest.Main(m, pgtest.CheckLeaks)
}

// Whoever is slow must not lose the lease by that: the tests end leases by hand.
var playTerms = task.Terms{Period: 100 * time.Millisecond, Lease: 10 * time.Minute}

const playTask = "play"

// play works the task until it is killed. A period's work is one row, written under the fence. While the process is named
// in the table held it does not come to that.
func play(name string) error {
	port, err := strconv.Atoi(os.Getenv("PLAY_PORT"))
	if err != nil {
		return err
	}
	ctx := context.Background()
	pool, err := pg.Open(ctx, pg.Config{
		Host: os.Getenv("PLAY_HOST"), Port: port, User: os.Getenv("PLAY_USER"),
		Password: os.Getenv("PLAY_PASSWORD"), Database: os.Getenv("PLAY_DATABASE"), PoolSize: 2,
	}, pg.Options{Name: "play"})
	if err != nil {
		return err
	}
	defer pool.Close()
	w := Worker{Store: task.New(pool), Holder: os.Getenv("PLAY_SERVER_ID"), Logger: slog.New(slog.DiscardHandler), Tasks: []Task{{
		Name: playTask, Terms: playTerms,
		Work: func(ctx context.Context, l *Lease) ([]slog.Attr, error) { return nil, work(ctx, pool, name, l) },
	}}}
	return w.Run(ctx)
}

func work(ctx context.Context, pool *pg.Pool, name string, l *Lease) error {
	if _, err := pool.Exec(ctx, `INSERT INTO begun VALUES ($1, $2, $3)`, name, l.Period, l.Fence); err != nil {
		return err
	}
	for held := true; held; {
		if err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM held WHERE name = $1)`, name).Scan(&held); err != nil {
			return err
		}
	}
	if err := l.Keep(ctx); err != nil {
		return err
	}
	tag, err := pool.Exec(ctx, `INSERT INTO worked SELECT $1, $2, $3::bigint WHERE queen.holds_task($4, $3::bigint)`, name, l.Period, l.Fence, l.Task)
	if err == nil && tag.RowsAffected() == 0 {
		_, err = pool.Exec(ctx, `INSERT INTO replaced VALUES ($1, $2, $3)`, name, l.Period, l.Fence)
		return errors.Join(task.ErrReplaced, err)
	}
	return err
}

// stage is the database that the processes share with their test.
type stage struct {
	*testing.T
	db pgtest.Database
}

func newStage(t *testing.T) *stage {
	s := &stage{t, pgtest.New(t)}
	for _, table := range []string{"begun", "worked", "replaced"} {
		s.exec(`CREATE TABLE ` + table + ` (name text, period timestamptz, fence bigint)`)
	}
	s.exec(`CREATE TABLE held (name text)`)
	return s
}

func (s *stage) exec(sql string, args ...any) {
	s.Helper()
	if _, err := s.db.Pool.Exec(s.Context(), sql, args...); err != nil {
		s.Fatal(err)
	}
}

// value reads one number.
func (s *stage) value(sql string, args ...any) (n int64) {
	s.Helper()
	if err := s.db.Pool.QueryRow(s.Context(), sql, args...).Scan(&n); err != nil {
		s.Fatal(err)
	}
	return n
}

func (s *stage) await(what, sql string, args ...any) {
	s.Helper()
	testkit.Eventually(s, what, func() bool { return s.value(sql, args...) > 0 })
}

// start runs a process until the test ends.
func (s *stage) start(name, serverID string) *os.Process {
	s.Helper()
	cmd := exec.Command(os.Args[0])
	c := s.db.Config
	cmd.Env = append(os.Environ(), playVariable+"="+name, "PLAY_SERVER_ID="+serverID, "PLAY_HOST="+c.Host, "PLAY_PORT="+strconv.Itoa(c.Port),
		"PLAY_USER="+c.User, "PLAY_PASSWORD="+c.Password, "PLAY_DATABASE="+c.Database, "GOCOVERDIR="+s.TempDir())
	cmd.Stderr = s.Output()
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be dead already
		_ = cmd.Wait()         // killed, which is no news
	})
	return cmd.Process
}

func (s *stage) signal(p *os.Process, sig os.Signal) {
	s.Helper()
	if err := p.Signal(sig); err != nil {
		s.Fatal(err)
	}
}

// eachPeriodOnce looks at what was worked so far.
func (s *stage) eachPeriodOnce() {
	s.Helper()
	if n := s.value(`SELECT count(*) - count(DISTINCT period) FROM worked`); n != 0 {
		s.Errorf("%d periods were worked more than once", n)
	}
	if n := s.value(`SELECT count(*) FROM worked w JOIN worked v ON w.period < v.period AND w.fence >= v.fence`); n != 0 {
		s.Errorf("%d times a later period was worked by an earlier holder", n)
	}
}

func TestThreeProcesses(t *testing.T) {
	t.Parallel()

	t.Run("one that is stopped at its work changes nothing when it goes on", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.exec(`INSERT INTO held VALUES ('a')`)
		a := s.start("a", "maintainer-1")
		s.start("b", "maintainer-1") // somebody has copied the settings
		s.start("c", "maintainer-2")
		s.await("a takes the task", `SELECT count(*) FROM begun WHERE name = 'a'`)
		s.signal(a, syscall.SIGSTOP)
		fence := s.value(`SELECT max(fence) FROM begun WHERE name = 'a'`)
		if n := s.value(`SELECT count(*) FROM worked WHERE fence >= $1`, fence); n != 0 {
			t.Fatalf("others worked %d periods under a's lease", n)
		}
		s.exec(`UPDATE queen.tasks SET lease_expires_at = clock_timestamp()`) // a minute passes
		s.await("others work its period", `SELECT count(*) FROM worked w JOIN begun b ON b.period = w.period WHERE b.name = 'a' AND b.fence = $1`, fence)
		s.await("and go on", `SELECT greatest(count(*) - 5, 0) FROM worked WHERE fence > $1`, fence)
		s.exec(`DELETE FROM held`)
		s.signal(a, syscall.SIGCONT)
		s.await("a is told", `SELECT count(*) FROM replaced WHERE name = 'a' AND fence = $1`, fence)
		s.await("a takes part again", `SELECT count(*) FROM worked WHERE name = 'a'`)
		s.eachPeriodOnce()
		if n := s.value(`SELECT count(*) FROM worked WHERE fence = $1`, fence); n != 0 {
			t.Error("a wrote under the fence of before")
		}
		if n := s.value(`SELECT count(*) FROM replaced`); n != 1 {
			t.Errorf("%d holders were told that they were replaced", n)
		}
	})

	t.Run("one that is killed at its work is replaced when its lease ends", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.exec(`INSERT INTO held VALUES ('a')`)
		a := s.start("a", "maintainer-1")
		s.start("b", "maintainer-2")
		s.start("c", "maintainer-3")
		s.await("a takes the task", `SELECT count(*) FROM begun WHERE name = 'a'`)
		s.signal(a, syscall.SIGKILL)
		fence := s.value(`SELECT max(fence) FROM begun WHERE name = 'a'`)
		s.exec(`UPDATE queen.tasks SET lease_expires_at = clock_timestamp() + interval '1 s'`)
		s.await("others work its period", `SELECT count(*) FROM worked w JOIN begun b ON b.period = w.period WHERE b.name = 'a' AND b.fence = $1`, fence)
		s.eachPeriodOnce()
		if n := s.value(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 737001 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND pid NOT IN (SELECT pid FROM pg_stat_activity WHERE state = 'active')`); n != 0 {
			t.Errorf("%d locks are left", n)
		}
	})
}

// errBroken is what a work of these tests fails with.
var errBroken = errors.New("broken")

func TestWorker(t *testing.T) {
	t.Parallel()
	long := task.Terms{Period: time.Hour, Lease: time.Hour}
	setup := func(t *testing.T, works map[string]func(context.Context, *Lease) ([]slog.Attr, error)) (*Worker, *stage) {
		s := &stage{t, pgtest.New(t)}
		w := &Worker{Store: task.New(s.db.Pool), Holder: "m", Logger: slog.New(slog.DiscardHandler)}
		for _, name := range []string{"first", "second"} {
			if works[name] != nil {
				w.Tasks = append(w.Tasks, Task{Name: name, Terms: long, Work: works[name]})
			}
		}
		return w, s
	}

	t.Run("once works what is due and no task twice", func(t *testing.T) {
		t.Parallel()
		n := 0
		count := func(context.Context, *Lease) ([]slog.Attr, error) { n++; return nil, nil }
		w, _ := setup(t, map[string]func(context.Context, *Lease) ([]slog.Attr, error){"first": count, "second": count})
		for range 2 {
			if err := w.Once(t.Context(), func(string, Outcome, error) {}); err != nil {
				t.Fatal(err)
			}
		}
		if n != 2 {
			t.Errorf("%d works", n)
		}
	})

	t.Run("a task that fails keeps no other from being worked and is due again", func(t *testing.T) {
		t.Parallel()
		worked := false
		w, s := setup(t, map[string]func(context.Context, *Lease) ([]slog.Attr, error){
			"first":  func(context.Context, *Lease) ([]slog.Attr, error) { return nil, errBroken },
			"second": func(context.Context, *Lease) ([]slog.Attr, error) { worked = true; return nil, nil },
		})
		var told []string
		err := w.Once(t.Context(), func(name string, _ Outcome, err error) { told = append(told, fmt.Sprint(name, " ", err)) })
		if !errors.Is(err, errBroken) || !worked || fmt.Sprint(told) != "[first broken second <nil>]" {
			t.Errorf("%v, worked %v, told %q", err, worked, told)
		}
		if n := s.value(`SELECT count(*) FROM queen.tasks WHERE name = 'first' AND ended_at IS NULL AND lease_expires_at <= clock_timestamp() + interval '30 s'`); n != 1 {
			t.Error("it is not due again")
		}
	})

	t.Run("who stops at work gives the task back at once", func(t *testing.T) {
		t.Parallel()
		ctx, stop := context.WithCancel(t.Context())
		w, s := setup(t, map[string]func(context.Context, *Lease) ([]slog.Attr, error){
			"first": func(ctx context.Context, _ *Lease) ([]slog.Attr, error) { stop(); <-ctx.Done(); return nil, ctx.Err() },
		})
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
		if n := s.value(`SELECT count(*) FROM queen.tasks WHERE ended_at IS NULL AND lease_expires_at <= clock_timestamp()`); n != 1 {
			t.Error("it is not free")
		}
	})

	t.Run("a lease is renewed between the steps, and whoever was replaced learns it there", func(t *testing.T) {
		t.Parallel()
		w, s := setup(t, map[string]func(context.Context, *Lease) ([]slog.Attr, error){})
		w.Tasks = []Task{{Name: "first", Terms: long, Work: func(ctx context.Context, l *Lease) ([]slog.Attr, error) {
			s.exec(`UPDATE queen.tasks SET lease_expires_at = clock_timestamp()`)
			if err := l.Keep(ctx); err != nil || s.value(`SELECT count(*) FROM queen.tasks WHERE lease_expires_at > clock_timestamp()`) != 0 {
				t.Error("it is renewed too early, or", err)
			}
			l.asked = l.asked.Add(-long.Lease)
			if err := l.Keep(ctx); err != nil || s.value(`SELECT count(*) FROM queen.tasks WHERE lease_expires_at > clock_timestamp()`) != 1 {
				t.Error("it is not renewed, or", err)
			}
			s.exec(`UPDATE queen.tasks SET fence = fence + 1`)
			l.asked = l.asked.Add(-long.Lease)
			return nil, l.Keep(ctx)
		}}}
		if err := w.Once(t.Context(), func(string, Outcome, error) {}); !errors.Is(err, task.ErrReplaced) {
			t.Error(err)
		}
	})
}
