package pg_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
)

// limit is a safety net, far above what any test here needs.
const limit = time.Minute

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func open(t *testing.T, cfg pg.Config) *pg.Pool {
	t.Helper()
	pool, err := pg.Open(t.Context(), cfg, pg.Options{Name: "pg test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// closedPort is an address that refuses connections.
func closedPort(t *testing.T) *net.TCPAddr {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr)
}

func TestOpenSucceedsWhileTheDatabaseIsDown(t *testing.T) {
	t.Parallel()
	pool := open(t, pg.Config{Host: "127.0.0.1", Port: closedPort(t).Port, User: "queen"})
	err := pg.Ping(bounded(t), pool)
	if queue.KindOf(err) != queue.KindUnavailable || !pg.Transient(err) || pg.FatalAtBoot(err) || pg.CommitUnknown(err) {
		t.Fatalf("%v: kind %v, transient %v, fatal %v, unknown %v",
			err, queue.KindOf(err), pg.Transient(err), pg.FatalAtBoot(err), pg.CommitUnknown(err))
	}
}

func TestWaitReady(t *testing.T) {
	t.Parallel()

	t.Run("WaitsWhileConnectionsAreRefused", func(t *testing.T) {
		t.Parallel()
		cfg := pgtest.Empty(t).Config
		address := closedPort(t)
		waiting := make(chan struct{}, 100)
		log := &records{seen: func(message string) {
			if message == "waiting for the database" {
				waiting <- struct{}{}
			}
		}}
		away := cfg
		away.Port = address.Port
		pool := open(t, away)
		done := make(chan error, 1)
		ctx := bounded(t)
		go func() { done <- pg.WaitReady(ctx, pool, slog.New(log)) }()
		<-waiting
		startProxy(t, cfg, address.String())
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if lines := log.all(); !strings.Contains(lines[0], "refused") || !strings.Contains(lines[len(lines)-1], "database answers") {
			t.Fatalf("logged %q", lines)
		}
	})

	t.Run("EndsWithItsContext", func(t *testing.T) {
		t.Parallel()
		pool := open(t, pg.Config{Host: "127.0.0.1", Port: closedPort(t).Port, User: "queen"})
		ctx, cancel := context.WithCancel(bounded(t))
		log := &records{seen: func(string) { cancel() }}
		if err := pg.WaitReady(ctx, pool, slog.New(log)); err != context.Canceled {
			t.Fatalf("got %v", err)
		}
	})
}

func TestOnlyServersThatTakeWritesAreAccepted(t *testing.T) {
	t.Parallel()
	direct := func(standby, readOnly string) map[string]string {
		return map[string]string{"server_version": "15.4", "in_hot_standby": standby, "default_transaction_read_only": readOnly}
	}
	pooler := map[string]string{"server_version": "15.4"}
	for name, tc := range map[string]struct {
		parameters map[string]string
		readOnly   string // answer to SHOW transaction_read_only
		accepted   bool
	}{
		"Primary":               {direct("off", "off"), "", true},
		"Standby":               {direct("on", "off"), "", false},
		"ReadOnlyByDefault":     {direct("off", "on"), "", false},
		"PrimaryBehindAPooler":  {pooler, "off", true},
		"StandbyBehindAPooler":  {pooler, "on", false},
		"NonsenseFromThePooler": {pooler, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := pg.Ping(bounded(t), open(t, fakeServer(t, tc.parameters, tc.readOnly)))
			switch {
			case tc.accepted && err != nil:
				t.Fatal(err)
			case !tc.accepted && (!pg.Transient(err) || pg.FatalAtBoot(err) || pg.CommitUnknown(err) || !strings.Contains(err.Error(), "read-only")):
				t.Fatalf("%v: transient %v, fatal %v, unknown %v", err, pg.Transient(err), pg.FatalAtBoot(err), pg.CommitUnknown(err))
			}
		})
	}
}

func TestWaitReadyEndsWithOneLineWhenWaitingDoesNotHelp(t *testing.T) {
	t.Parallel()
	real := pgtest.Empty(t).Config
	wrongPassword, noDatabase := real, real
	wrongPassword.Password = "not-the-password"
	noDatabase.Database = "no_such_database"
	for name, tc := range map[string]struct {
		cfg  pg.Config
		want string
	}{
		"WrongPassword": {wrongPassword, "password authentication failed"},
		"NoDatabase":    {noDatabase, `database "no_such_database" does not exist`},
		"OldServer": {
			fakeServer(t, map[string]string{"server_version": "14.9 (Debian 14.9-1)"}, ""),
			"PostgreSQL 15 or newer is required, the server is 14.9",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := pg.WaitReady(bounded(t), open(t, tc.cfg), slog.New(slog.DiscardHandler))
			if !pg.FatalAtBoot(err) {
				t.Fatalf("%v is not fatal at boot", err)
			}
			line := err.Error()
			if !strings.Contains(line, tc.want) || !strings.Contains(line, tc.cfg.Host) || strings.Contains(line, "\n") || strings.Contains(line, tc.cfg.Password) {
				t.Fatalf("last line %q, want one line with %q and the host, without the password", line, tc.want)
			}
		})
	}
}
