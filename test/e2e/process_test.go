package e2e

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/testkit"
	"queen.internal/test/internal/cell"
)

// single is one more process of a service on the shared stack's database, which it reaches through a proxy.
type single struct {
	url     string
	proxy   *testkit.Proxy
	process *os.Process
}

// startSingle starts it and returns when it is ready. It is killed at the end of the test.
func startSingle(t *testing.T, service string) *single {
	t.Helper()
	settings := sharedSettings(t, service)
	s := &single{url: "http://127.0.0.1:" + settings["PORT"], proxy: testkit.NewProxy(t, settings["PG_HOST"]+":"+settings["PG_PORT"])}
	settings["PG_PORT"] = strconv.Itoa(s.proxy.Port())
	var output strings.Builder
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(world.Binaries, service))
	cmd.Env = os.Environ()
	for name, value := range settings {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.process = cmd.Process
	t.Cleanup(func() {
		_ = s.process.Kill() // also when it is stopped; an error means that it has ended
		_ = cmd.Wait()       // which says that it was killed
		if t.Failed() {
			t.Logf("%s printed:\n%s", service, cell.LastLines(output.String(), 40))
		}
	})
	cell.Eventually(t, func() bool {
		resp, err := http.Get(s.url + "/readyz")
		return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
	return s
}

func (s *single) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := s.process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// freeze stops the process and returns when the system has done so.
func (s *single) freeze(t *testing.T) {
	t.Helper()
	s.signal(t, syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(s.process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("stop the process: %v, %v", status, err)
	}
}

// direct is a session of the superuser on the shared stack's database.
func direct(t *testing.T) *pgx.Conn {
	t.Helper()
	shared(t)
	return connectTo(t, shared(t).Stack.DSN())
}

func connectTo(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := conn.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return conn
}
