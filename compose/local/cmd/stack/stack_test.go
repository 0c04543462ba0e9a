package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"queen.internal/compose/local"
	"queen.internal/pkg/pgserver"
)

// asStack makes this test program the stack command.
const asStack = "QUEEN_TEST_AS_STACK"

func TestMain(m *testing.M) {
	if os.Getenv(asStack) != "" {
		version = "v1.2.3-test"
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// checkout makes a folder that looks like one of ours, with stand-ins for the services, in a place that the database's
// user can enter.
func checkout(t *testing.T) string {
	t.Helper()
	root, err := pgserver.TemporaryFolder()
	if err != nil {
		t.Fatal(err)
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	source, err := os.ReadFile("../../testdata/fake/main.go")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	workspace := "go 1.26.0\n"
	for _, service := range []string{"ingest", "deliver", "maintainer", "console", "gateway"} {
		workspace += "use ./services/" + service + "\n"
		files["services/"+service+"/go.mod"] = "module queen.internal/services/" + service + "\n\ngo 1.26.0\n"
		files["services/"+service+"/main.go"] = string(source)
		files["services/"+service+"/version.go"] = "package main\n\nvar version string\n\n" +
			"func init() { println(\"version\", version) }\n"
	}
	files["go.work"] = workspace
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// command prepares a stack command in a checkout, at a free edge port.
func command(t *testing.T, root string, port int, verb string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], verb)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), asStack+"=1", "EDGE_PORT="+strconv.Itoa(port), "QUEEN_STACK_DIR=", "GOWORK=", "GOFLAGS=-buildvcs=false")
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := pgserver.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func healthy(t *testing.T, url string) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/health", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode == http.StatusOK
}

func TestUpInTheForeground(t *testing.T) {
	t.Parallel()
	root, port := checkout(t), freePort(t)
	cmd := command(t, root, port, "up", "INGEST=2")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var seen strings.Builder
	lines := bufio.NewReader(out)
	for !strings.Contains(seen.String(), "Ctrl-C stops everything") {
		line, err := lines.ReadString('\n')
		seen.WriteString(line)
		if err != nil {
			t.Fatalf("%v: %s\n%s", err, &seen, &complaints)
		}
	}
	edge := fmt.Sprintf("http://127.0.0.1:%d", port)
	for _, part := range []string{
		"Queen is up.", "  edge        " + edge, "  console     http://127.0.0.1:" + strconv.Itoa(port+12),
		"ingest.2   | serving on", "ingest.1   | version v1.2.3-test",
		"curl -sS -X POST " + edge + "/api/v1/push", "curl -sS '" + edge + "/api/v1/pop/queue/hello?",
	} {
		if !strings.Contains(seen.String(), part) {
			t.Errorf("it never said %q:\n%s", part, &seen)
		}
	}
	if strings.Contains(seen.String(), "\x1b[") {
		t.Error("colours in a pipe")
	}
	state, err := local.ReadState(filepath.Join(root, ".queen"))
	if err != nil || state.Edge != edge || !healthy(t, edge) {
		t.Errorf("stack.json names %q, %v", state.Edge, err)
	}
	password := strings.Split(strings.SplitN(state.Postgres.DSN, ":", 3)[2], "@")[0]
	if strings.Contains(seen.String(), password) {
		t.Error("the database's password was printed")
	}
	if second, err := command(t, root, freePort(t), "up").CombinedOutput(); err == nil || !strings.Contains(string(second), "a stack already runs in") {
		t.Errorf("a second up in the same place: %v: %s", err, second)
	}

	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(string(rest), "stopped in ") {
		t.Errorf("after Ctrl-C: %v: %s%s", err, rest, &complaints)
	}
	if healthy(t, edge) {
		t.Error("the edge outlived Ctrl-C")
	}
	if _, err := local.ReadState(filepath.Join(root, ".queen")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stack.json after the end: %v", err)
	}
}

func TestUpInTheBackground(t *testing.T) {
	t.Parallel()
	root, port := checkout(t), freePort(t)
	edge := fmt.Sprintf("http://127.0.0.1:%d", port)

	failed, err := command(t, root, port, "up", "DETACH=1", "FAKE_REFUSE=no mood today").CombinedOutput()
	if err == nil || !strings.Contains(string(failed), "did not start: exit status 1") ||
		!strings.Contains(string(failed), "no mood today") || !strings.Contains(string(failed), ".log") {
		t.Errorf("a start that fails: %v: %s", err, failed)
	}

	// Its output goes to pipes that must close with the command itself, or this would wait for the stack.
	said, err := command(t, root, port, "up", "DETACH=1").CombinedOutput()
	if err != nil || !strings.Contains(string(said), "make down stops it") || !healthy(t, edge) {
		t.Fatalf("%v: %s", err, said)
	}
	state, err := local.ReadState(filepath.Join(root, ".queen"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(state.Runner, syscall.SIGKILL) })

	said, err = command(t, root, port, "down").CombinedOutput()
	if err != nil || !strings.Contains(string(said), "stopped the stack in "+root) || healthy(t, edge) {
		t.Errorf("down: %v: %s", err, said)
	}
	said, err = command(t, root, port, "down").CombinedOutput()
	if err != nil || !strings.Contains(string(said), "no stack is running") {
		t.Errorf("down again: %v: %s", err, said)
	}
}

func TestMistakesAreOneClearLine(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		verb string
		env  []string
		says string
	}{
		"ABadNumber":         {"up", []string{"INGEST=many"}, "stack: INGEST="},
		"TooManyCopies":      {"up", []string{"DELIVER=1000"}, "stack: DELIVER="},
		"ABadBoolean":        {"up", []string{"DETACH=maybe"}, "stack: DETACH="},
		"NotInACheckout":     {"up", nil, "not inside a checkout"},
		"AnUnknownVerb":      {"restart", []string{"QUEEN_STACK_DIR=/tmp"}, "usage: stack up | down"},
		"NothingToStopThere": {"down", []string{"QUEEN_STACK_DIR=/nowhere/at/all"}, "no stack is running in /nowhere/at/all"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said, err := command(t, t.TempDir(), 6632, c.verb, c.env...).CombinedOutput()
			if (err == nil) != (c.verb == "down") || !strings.Contains(string(said), c.says) {
				t.Errorf("%v: %s", err, said)
			}
		})
	}
}

func TestABuildErrorNamesTheService(t *testing.T) {
	t.Parallel()
	root := checkout(t)
	broken := filepath.Join(root, "services", "deliver", "broken.go")
	if err := os.WriteFile(broken, []byte("package main\n\nvar x = y\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	err := local.Build(ctx, root, filepath.Join(root, "bin"), "test")
	if err == nil || !strings.Contains(err.Error(), "build deliver") || !strings.Contains(err.Error(), "undefined: y") {
		t.Errorf("error: %v", err)
	}
}
