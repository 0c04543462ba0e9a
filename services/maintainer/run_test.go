package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"queen.internal/pkg/config"
	"queen.internal/pkg/daemon"
	"queen.internal/pkg/logging"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/route"
)

// playVariable makes this binary the program itself.
const playVariable = "QUEEN_TEST_PLAY"

func TestMain(m *testing.M) {
	if os.Getenv(playVariable) != "" {
		main()
		return
	}
	pgtest.Main(m, pgtest.CheckLeaks)
}

// patience is a safety net, not a measure.
const patience = 30 * time.Second

// at are the settings for a database.
func at(database pg.Config) settings {
	s := defaults()
	s.HTTP.Port, s.BindAddr, s.DrainDelay = 0, "127.0.0.1", 0
	s.Host, s.Postgres.Port, s.User = database.Host, config.Int(database.Port), database.User
	s.Password, s.Database, s.PoolSize = config.Secret(database.Password), database.Database, 2
	return s
}

// nowhere are settings for a database that does not answer.
func nowhere(t *testing.T) settings {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	return at(pg.Config{Host: "127.0.0.1", Port: port, User: "nobody", Password: "secret", Database: "none"})
}

func testEnv(t *testing.T, stdout io.Writer) daemon.Env {
	return daemon.Env{Service: "maintainer", Version: "test", Logger: logging.New(t.Output(), logging.Settings{Filter: "warn"}), Stdout: stdout}
}

// start runs the service until the test ends and returns its base URL.
func start(t *testing.T, s settings) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	listening, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- serve(ctx, testEnv(t, io.Discard), s, func(url string) { listening <- url }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ends with %v", err)
		}
	})
	select {
	case url := <-listening:
		return url
	case err := <-ended:
		ended <- err
		t.Fatalf("ended with %v", err)
	case <-time.After(patience):
		t.Fatal("does not listen")
	}
	return ""
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	res, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// becomesReady asks until the schema keeper is done; each answer but the last names what is missing.
func becomesReady(t *testing.T, url string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		status, body := get(t, url+"/readyz")
		if status == http.StatusOK {
			return
		}
		if !strings.Contains(body, `"check":"`) || time.Now().After(deadline) {
			t.Fatalf("/readyz is %d %s", status, body)
		}
	}
}

func TestServe(t *testing.T) {
	t.Parallel()

	t.Run("with its database it is healthy and installs the schema", func(t *testing.T) {
		t.Parallel()
		database := pgtest.Empty(t)
		url := start(t, at(database.Config))
		becomesReady(t, url)
		if status, body := get(t, url+"/health"); status != http.StatusOK || body != `{"status":"healthy","database":"connected","engine":"segments-go","version":"test"}` {
			t.Errorf("/health is %d %s", status, body)
		}
		var version int
		if err := database.Pool.QueryRow(t.Context(), `SELECT version FROM queen.schema_version`).Scan(&version); err != nil || version == 0 {
			t.Errorf("the schema's version is %d, %v", version, err)
		}
		for path, part := range map[string]string{"/livez": "ok", "/status": "segments-go", "/metrics/prometheus": "queen_http_request_duration_seconds"} {
			if status, body := get(t, url+path); status != http.StatusOK || !strings.Contains(body, part) {
				t.Errorf("%s is %d %s", path, status, body)
			}
		}
	})

	t.Run("without its database it lives, is not ready and says why", func(t *testing.T) {
		t.Parallel()
		s := nowhere(t)
		url := start(t, s)
		if status, body := get(t, url+"/health"); status != http.StatusServiceUnavailable || !strings.Contains(body, `"database":"disconnected"`) {
			t.Errorf("/health is %d %s", status, body)
		}
		status, body := get(t, url+"/readyz")
		if status != http.StatusServiceUnavailable || !strings.Contains(body, `"check":"postgresql"`) {
			t.Errorf("/readyz is %d %s", status, body)
		}
		if strings.Contains(body, "127.0.0.1") || strings.Contains(body, "nobody") {
			t.Errorf("/readyz tells anybody where the database is: %s", body)
		}
		if status, _ := get(t, url+"/livez"); status != http.StatusOK {
			t.Errorf("/livez is %d", status)
		}
	})

	t.Run("with authentication on only what is open needs no token", func(t *testing.T) {
		t.Parallel()
		s := nowhere(t)
		s.Enabled, s.Secret = true, "secret"
		url := start(t, s)
		for path, want := range map[string]int{
			"/livez": http.StatusOK, "/metrics/prometheus": http.StatusOK, "/status": http.StatusUnauthorized,
			"/api/v1/pop": http.StatusUnauthorized, "/api/v1/nothing": http.StatusUnauthorized,
		} {
			if status, body := get(t, url+path); status != want {
				t.Errorf("%s is %d %s", path, status, body)
			}
		}
	})

	t.Run("routes of other roles are refused by name", func(t *testing.T) {
		t.Parallel()
		url := start(t, nowhere(t))
		for _, row := range route.Table {
			if row.Method != http.MethodGet || row.Role == route.Every || row.Role == route.Maintainer {
				continue
			}
			if status, body := get(t, url+strings.ReplaceAll(row.Path, ":", "x")); status != http.StatusNotFound || !strings.Contains(body, `"code":"wrong_role"`) || !strings.Contains(body, string(row.Role)) {
				t.Errorf("%s is %d %s", row.Path, status, body)
			}
		}
	})
}

func TestOnce(t *testing.T) {
	t.Parallel()

	t.Run("says what was due, also on an empty database, and works it once a period", func(t *testing.T) {
		t.Parallel()
		s := at(pgtest.Empty(t).Config)
		s.Interval = 3_600_000 // longer than the test; the others come once a minute, or once in ten seconds
		due := len(workerOf(testEnv(t, io.Discard), s, nil, nil).Tasks)
		var first, second bytes.Buffer
		if err := once(t.Context(), testEnv(t, &first), s); err != nil || strings.Count(first.String(), " done\n") != due ||
			!strings.HasSuffix(first.String(), fmt.Sprintf("\n%d tasks due, 0 failed\n", due)) {
			t.Errorf("prints %q, ends with %v, want %d tasks", first.String(), err, due)
		}
		if err := once(t.Context(), testEnv(t, &second), s); err != nil || !strings.HasPrefix(first.String(), "retention: ") ||
			strings.HasPrefix(second.String(), "retention: ") || !strings.HasSuffix(second.String(), " tasks due, 0 failed\n") {
			t.Errorf("prints %q, then %q, ends with %v", first.String(), second.String(), err)
		}
	})

	t.Run("a task that fails is named and ends it with an error", func(t *testing.T) {
		t.Parallel()
		database := pgtest.New(t)
		if _, err := database.Pool.Exec(t.Context(), `ALTER TABLE queen.transactions RENAME TO elsewhere`); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err := once(t.Context(), testEnv(t, &out), at(database.Config))
		if err == nil || !strings.Contains(out.String(), "transactions: failed: ") || !strings.Contains(out.String(), " 1 failed\n") {
			t.Errorf("prints %q, ends with %v", out.String(), err)
		}
	})

	t.Run("does not wait for a database that is down", func(t *testing.T) {
		t.Parallel()
		s := nowhere(t)
		var out bytes.Buffer
		err := once(t.Context(), testEnv(t, &out), s)
		if err == nil || !strings.Contains(err.Error(), net.JoinHostPort("127.0.0.1", strconv.Itoa(int(s.Postgres.Port)))) || strings.Contains(err.Error(), "\n") {
			t.Errorf("ends with %v, want one line that names the address", err)
		}
		if out.Len() > 0 {
			t.Errorf("prints %q", out.String())
		}
	})

	t.Run("names a refused password", func(t *testing.T) {
		t.Parallel()
		s := at(pgtest.New(t).Config)
		s.Password = "wrong"
		if err := once(t.Context(), testEnv(t, io.Discard), s); err == nil || !pg.FatalAtBoot(err) && !strings.Contains(err.Error(), "password") {
			t.Errorf("ends with %v", err)
		}
	})
}

// The program's exit code and last line, from a process of its own.
func TestProcess(t *testing.T) {
	t.Parallel()
	s := nowhere(t)
	tests := []struct {
		name string
		args []string
		env  []string
		code int
		want string
	}{
		{"once without a database", []string{"--once"}, []string{"PG_HOST=127.0.0.1", "PG_PORT=" + strconv.Itoa(int(s.Postgres.Port))}, 1, "FATAL: reach the database at 127.0.0.1:"},
		{"a bad setting", nil, []string{"DB_POOL_SIZE=16O"}, 1, `FATAL: DB_POOL_SIZE="16O" is not`},
		{"help", []string{"--help"}, nil, 0, "--once"},
		{"version", []string{"--version"}, nil, 0, "queen-maintainer"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], test.args...)
			cmd.Env = append([]string{playVariable + "=1", "LOG_LEVEL=error", "GOCOVERDIR=" + t.TempDir()}, test.env...)
			out, err := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != test.code || !strings.Contains(string(out), test.want) {
				t.Errorf("exit code %d (%v), output %q", code, err, out)
			}
			if test.code != 0 && strings.Count(string(out), "\n") != 1 {
				t.Errorf("prints %q, want one line", out)
			}
		})
	}
}
