package daemon

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"queen.internal/pkg/health"
)

// childMode selects what the test binary does when it runs as a service of its own.
const childMode = "DAEMON_TEST_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		Main("ingest", "1.2.3", func(ctx context.Context, env Env) error { return runChild(ctx, env, mode) })
		return
	}
	goleak.VerifyTestMain(m)
}

// runChild is the service that the signal tests start and stop. Each line on standard output is an event.
func runChild(ctx context.Context, env Env, mode string) error {
	say := func(event string) { fmt.Fprintln(env.Stdout, event) }
	g := &Group{Logger: env.Logger}
	g.Add(Component{Name: "pool", Stop: func(context.Context) error { say("pool closed"); return nil }})
	g.Add(Component{Name: "worker", Run: func(ctx context.Context) error {
		say("up")
		if mode == "panics" {
			panic("no way out")
		}
		<-ctx.Done()
		say("worker told")
		if mode == "stuck" {
			select {} // only the second signal ends this
		}
		return ctx.Err()
	}})
	err := g.Run(ctx)
	say(fmt.Sprintf("cause: %v", context.Cause(ctx)))
	return err
}

// child is the test binary as a running service.
type child struct {
	cmd    *exec.Cmd
	events *bufio.Scanner
	stderr bytes.Buffer
}

func startChild(t *testing.T, mode string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), childMode+"="+mode)
	c.cmd.Stderr = &c.stderr
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.events = bufio.NewScanner(stdout)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	return c
}

func (c *child) want(t *testing.T, events ...string) {
	t.Helper()
	for _, want := range events {
		if !c.events.Scan() || c.events.Text() != want {
			t.Fatalf("got event %q, want %q; log:\n%s", c.events.Text(), want, &c.stderr)
		}
	}
}

func (c *child) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// wantExit waits for the end. The log must have the lines, matched as expressions, in that order.
func (c *child) wantExit(t *testing.T, code int, lines ...string) {
	t.Helper()
	_, _ = io.Copy(io.Discard, &drained{c.events}) // Wait closes the pipe
	err := c.cmd.Wait()
	if got := c.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d (%v), want %d; log:\n%s", got, err, code, &c.stderr)
	}
	rest := c.stderr.String()
	for _, line := range lines {
		at := regexp.MustCompile(`(?m)^\S+Z ` + line).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("no further line matches %s in the log:\n%s", line, &c.stderr)
		}
		rest = rest[at[1]:]
	}
}

// drained reads a scanner to its end.
type drained struct{ *bufio.Scanner }

func (d *drained) Read([]byte) (int, error) {
	for d.Scan() {
		continue
	}
	return 0, io.EOF
}

func TestFirstSignalStopsInOrderAndExitsWithZero(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			c := startChild(t, "orderly")
			c.want(t, "up")
			c.signal(t, s)
			c.want(t, "worker told", "pool closed", "cause: stopped by signal: "+s.String())
			c.wantExit(t, 0, `INFO shutdown: signal received — draining in-flight requests signal=`, `INFO shutdown: shutdown complete$`)
		})
	}
}

func TestSecondSignalExitsAtOnce(t *testing.T) {
	t.Parallel()
	c := startChild(t, "stuck")
	c.want(t, "up")
	c.signal(t, syscall.SIGTERM)
	c.want(t, "worker told")
	c.signal(t, syscall.SIGINT)
	c.wantExit(t, 130, `INFO shutdown: signal received`, `WARN shutdown: second signal received — exiting now signal=interrupt$`)
}

func TestPanicInAComponentIsLoggedAndEndsTheProcess(t *testing.T) {
	t.Parallel()
	c := startChild(t, "panics")
	c.want(t, "up")
	c.wantExit(t, 2, `ERROR panic: no way out stack=`)
}

// executed is what one execution leaves behind.
type executed struct {
	code           int
	stdout, stderr string
}

func execute(args []string, run RunFunc, flags ...Flag) executed {
	var stdout, stderr bytes.Buffer
	p := process{service: "ingest", version: "1.2.3", flags: flags, stdout: &stdout, stderr: &stderr, exit: func(int) {}}
	code := p.execute(args, run)
	return executed{code, stdout.String(), stderr.String()}
}

func mustNotRun(context.Context, Env) error { panic("the service ran") }

func TestArgumentsThatDoNotRunTheService(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"--version"}, 0, `^queen-ingest 1\.2\.3 go\S+ \w+/\w+\n$`, `^$`},
		{[]string{"version"}, 0, `^queen-ingest 1\.2\.3 `, `^$`},
		{[]string{"--help"}, 0, `^usage: ingest (?s:.*)--once\s+run every due task and exit(?s:.*)healthcheck`, `^$`},
		{[]string{"--onec"}, 2, `^$`, `^ingest: unknown argument "--onec"\nusage: `},
		{[]string{"once"}, 2, `^$`, `^ingest: unknown argument "once"\nusage: `},
		{[]string{"migrate"}, 1, `^$`, `^\S+Z ERROR migrate: not supported: services apply the schema when they start\n$`},
	} {
		got := execute(tc.args, mustNotRun, Flag{"once", "run every due task and exit"})
		if got.code != tc.code || !regexp.MustCompile(tc.stdout).MatchString(got.stdout) || !regexp.MustCompile(tc.stderr).MatchString(got.stderr) {
			t.Errorf("%v gives %+v", tc.args, got)
		}
	}
}

func TestServiceGetsItsEnvironmentAndFlags(t *testing.T) {
	t.Parallel()
	got := execute([]string{"--once"}, func(ctx context.Context, env Env) error {
		fmt.Fprintf(env.Stdout, "%s %s once=%v more=%v", env.Service, env.Version, env.Flags["once"], env.Flags["more"])
		return ctx.Err()
	}, Flag{Name: "once"}, Flag{Name: "more"})
	if got != (executed{0, "ingest 1.2.3 once=true more=false", ""}) {
		t.Errorf("got %+v", got)
	}
}

func TestErrorOfTheServiceIsOneFatalLine(t *testing.T) {
	t.Parallel()
	got := execute(nil, func(context.Context, Env) error {
		return errors.Join(errors.New(`JWT_ENABLED="maybe" is not a boolean`), errors.New("and more"))
	})
	want := regexp.MustCompile(`^\S+Z ERROR boot: FATAL: JWT_ENABLED="maybe" is not a boolean\\nand more\n$`)
	if got.code != 1 || got.stdout != "" || !want.MatchString(got.stderr) {
		t.Errorf("got %+v", got)
	}
}

func TestMistakesInTheLoggingSettingsAreFatalLinesToo(t *testing.T) {
	t.Setenv("QUEEN_LOG_JSON", "maybe") // so not in parallel
	got := execute(nil, mustNotRun)
	if got.code != 1 || !strings.Contains(got.stderr,
		` ERROR boot: FATAL: QUEEN_LOG_JSON="maybe" is not a boolean (expected true/false, 1/0, yes/no, on/off)`) {
		t.Errorf("got %+v", got)
	}
}

func TestLoggingSettingsShapeTheFatalLine(t *testing.T) {
	t.Setenv("QUEEN_LOG_JSON", "yes") // so not in parallel
	got := execute(nil, func(context.Context, Env) error { return errors.New("no") })
	if got.code != 1 || !strings.Contains(got.stderr, `"level":"ERROR","target":"boot","message":"FATAL: no"}`) {
		t.Errorf("got %+v", got)
	}
}

func TestHealthcheckAsksTheServiceThatListensOnPort(t *testing.T) {
	down := func(context.Context) error { return errors.New("connection refused") }
	up := func(context.Context) error { return nil }
	for name, tc := range map[string]struct {
		check func(context.Context) error
		code  int
		says  string
	}{
		"ready":     {up, 0, `{"status":"ready","version":"1.2.3","reasons":[]}`},
		"not ready": {down, 1, `answers 503: {"status":"not ready","version":"1.2.3","reasons":[{"check":"postgresql","reason":"connection refused"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			checks := health.New(health.Options{Version: "1.2.3", Ready: []health.Check{{Name: "postgresql", Func: tc.check}}})
			mux := http.NewServeMux()
			mux.HandleFunc("GET /readyz", checks.Readyz)
			server := httptest.NewServer(mux)
			defer server.Close()
			t.Setenv("PORT", server.URL[strings.LastIndex(server.URL, ":")+1:]) // so not in parallel
			t.Setenv("HTTP_PROXY", "http://192.0.2.1:1")
			got := execute([]string{"healthcheck"}, mustNotRun)
			if got.code != tc.code || !strings.Contains(got.stdout+got.stderr, tc.says) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestHealthcheckFailsWhenNobodyListens(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	port := server.URL[strings.LastIndex(server.URL, ":")+1:]
	server.Close()
	t.Setenv("PORT", port) // so not in parallel
	got := execute([]string{"healthcheck"}, mustNotRun)
	if got.code != 1 || !strings.Contains(got.stderr, "ingest healthcheck: ") || !strings.Contains(got.stderr, "refused") {
		t.Errorf("got %+v", got)
	}
}

func TestReachableAddressOfAListener(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"0.0.0.0:6641": "127.0.0.1:6641", ":6641": "127.0.0.1:6641", "[::]:6641": "[::1]:6641", "10.1.2.3:6641": "10.1.2.3:6641",
		"localhost:6641": "localhost:6641",
	} {
		if got := reachable(addr); got != want {
			t.Errorf("%s gives %s, want %s", addr, got, want)
		}
	}
}

func TestVersionIsTheStampedOne(t *testing.T) {
	t.Parallel()
	if got := resolveVersion("1.2.3"); got != "1.2.3" {
		t.Errorf("got %s", got)
	}
	if got := resolveVersion(""); got == "" || strings.ContainsAny(got, " \n") {
		t.Errorf("an unstamped build calls itself %q", got)
	}
}
