package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

// TestMain lets this binary be the victim that a run starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == victimCommand {
		os.Exit(victim(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// lines writes n JSON lines over three partitions.
func lines(t *testing.T, n int) string {
	t.Helper()
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"n":%d,"who":"w%d","big":12345678901234567890}`+"\n", i, i%3)
	}
	path := filepath.Join(t.TempDir(), "input.jsonl")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

type finished struct {
	code           int
	stdout, stderr string
}

func demo(ctx context.Context, b http.Handler, args ...string) finished {
	server := httptest.NewServer(b)
	defer server.Close()
	var stdout, stderr bytes.Buffer
	args = append([]string{"--url", server.URL, "--partition-key", "who", "--patience", "2s"}, args...)
	code := run(ctx, args, func(string) string { return "" }, &stdout, &stderr)
	return finished{code, stdout.String(), stderr.String()}
}

// row is the numbers of one row of the table, without the blanks inside them.
func (f finished) row(label string) []string {
	line := regexp.MustCompile(`(?m)^\s*` + label + `\s{2,}(.*)$`).FindStringSubmatch(f.stdout)
	if line == nil {
		return nil
	}
	return regexp.MustCompile(`\s{2,}`).Split(strings.TrimSpace(line[1]), -1)
}

func (f finished) expect(t *testing.T, code int, rows map[string]string) {
	t.Helper()
	if f.code != code {
		t.Errorf("exit code %d, want %d", f.code, code)
	}
	for label, want := range rows {
		if got := strings.Join(f.row(label), ","); got != want {
			t.Errorf("%s: %q, want %q", label, got, want)
		}
	}
	if t.Failed() {
		t.Logf("stdout:\n%s\nstderr:\n%s", f.stdout, f.stderr)
	}
}

func TestRunWithAnHonestBroker(t *testing.T) {
	t.Parallel()

	t.Run("DeliversEverythingAndRedeliversWhatTheDeadWorkerHeld", func(t *testing.T) {
		t.Parallel()
		f := demo(t.Context(), newBroker(), "--file", lines(t, 1500))
		f.expect(t, exitGood, map[string]string{
			"messages in": "1 500,1 500", "delivered": "1 500,1 500", "out of order": "0,0", "lost": "0,0", "altered": "0,0",
		})
		again := f.row("redelivered")
		held := regexp.MustCompile(`killed one worker of audit-\w+, which held (\d+) messages under its lease; they came again`)
		if match := held.FindStringSubmatch(f.stdout); match == nil || len(again) != 2 || again[0] != "0" || again[1] != match[1] {
			t.Errorf("redelivered %v, %v; want none and what the dead worker held\n%s", again, match, f.stdout)
		}
	})

	t.Run("EmptyInputEndsAtOnce", func(t *testing.T) {
		t.Parallel()
		demo(t.Context(), newBroker(), "--file", lines(t, 0)).expect(t, exitGood, map[string]string{
			"messages in": "0,0", "delivered": "0,0", "lost": "0,0",
		})
	})

	t.Run("SecondRunOfTheSameNameFindsEverythingThere", func(t *testing.T) {
		t.Parallel()
		b, file := newBroker(), lines(t, 30)
		demo(t.Context(), b, "--file", file, "--run", "same").expect(t, exitGood, map[string]string{"messages in": "30,30"})
		f := demo(t.Context(), b, "--file", file, "--run", "same")
		f.expect(t, exitGood, map[string]string{"messages in": "0,0", "delivered": "0,0"})
		if !strings.Contains(f.stdout, "30 were there already") {
			t.Errorf("output\n%s\nsays nothing of 30 duplicates", f.stdout)
		}
	})

	t.Run("LostAnswersAndRefusalsAreOutlived", func(t *testing.T) {
		t.Parallel()
		b := newBroker()
		var pushes atomic.Int32
		b.lose = func(path string) bool { return strings.HasSuffix(path, "/push") && pushes.Add(1) == 1 }
		b.refuse = func(request int, w http.ResponseWriter, _ *http.Request) bool {
			if request > 2 && request%5 == 0 { // the first two register the groups
				http.Error(w, `{"error":"PostgreSQL is down"}`, http.StatusServiceUnavailable)
				return true
			}
			return false
		}
		demo(t.Context(), b, "--file", lines(t, 200)).expect(t, exitGood, map[string]string{
			"messages in": "200,200", "delivered": "200,200", "lost": "0,0", "out of order": "0,0",
		})
	})
}

func TestRunFindsABrokerThatCheats(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cheat func(messages []message) []message
		row   string
		want  string
	}{
		"Reorders": {
			func(m []message) []message {
				m[0], m[1] = m[1], m[0]
				return m
			}, "out of order", "1,0",
		},
		"Loses":  {func(m []message) []message { return m[1:] }, "lost", "1,0"},
		"Alters": {func(m []message) []message { m[0].Data = []byte(`{"n":0}`); return m }, "altered", "1,0"},
		"Invents": {func(m []message) []message {
			m[0].Transaction = strings.Replace(m[0].Transaction, "/0/", "/9999/", 1)
			return m
		}, "altered", "1,0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker()
			var once sync.Once
			b.deliver = func(group string, m []message) []message {
				if strings.HasPrefix(group, "index-") && m[0].offset == 0 && len(m) > 1 {
					once.Do(func() { m = test.cheat(m) })
				}
				return m
			}
			f := demo(t.Context(), b, "--file", lines(t, 300))
			f.expect(t, exitBad, map[string]string{test.row: test.want, "messages in": "300,300"})
		})
	}
}

func TestRunStopsOnInterrupt(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	b := newBroker()
	b.deliver = func(string, []message) []message {
		interrupt()
		return nil
	}
	f := demo(ctx, b, "--file", lines(t, 300))
	if f.code != exitInterrupted || !strings.Contains(f.stdout, "not yet acked") {
		t.Errorf("exit code %d, want %d\n%s\n%s", f.code, exitInterrupted, f.stdout, f.stderr)
	}
}

func TestRunReportsWhatItCannotDo(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(newBroker())
	gone.Close()
	refusing := newBroker()
	refusing.refuse = func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/push") {
			http.Error(w, `{"error":"bad body: no"}`, http.StatusBadRequest)
		}
		return strings.HasSuffix(r.URL.Path, "/push")
	}
	broken := filepath.Join(t.TempDir(), "broken.jsonl")
	if err := os.WriteFile(broken, []byte("{}\n{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		broker http.Handler
		args   []string
		code   int
		says   string
	}{
		"NoCell":         {newBroker(), []string{"--url", gone.URL, "--file", lines(t, 1)}, exitBad, "make up"},
		"PushRefused":    {refusing, []string{"--file", lines(t, 1)}, exitBad, "status 400: bad body: no"},
		"BadLine":        {newBroker(), []string{"--file", broken}, exitBad, "line 2 is not JSON"},
		"NoFile":         {newBroker(), []string{"--file", filepath.Join(t.TempDir(), "absent")}, exitBad, "absent"},
		"KeyWithoutFile": {newBroker(), nil, exitUsage, "--partition-key needs --file"},
		"UnknownFlag":    {newBroker(), []string{"--nonsense"}, exitUsage, "nonsense"},
		"Stray":          {newBroker(), []string{"--file", "x", "stray"}, exitUsage, "stray"},
		"OneWorker":      {newBroker(), []string{"--file", "x", "--workers", "1"}, exitUsage, "--workers"},
		"SlashInRun":     {newBroker(), []string{"--file", "x", "--run", "a/b"}, exitUsage, "--run"},
		"Help":           {newBroker(), []string{"--help"}, exitGood, "--partition-key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := demo(t.Context(), test.broker, test.args...)
			if f.code != test.code || !strings.Contains(f.stderr, test.says) {
				t.Errorf("exit code %d, said %q; want %d and %q", f.code, f.stderr, test.code, test.says)
			}
		})
	}
}

func TestRunWithoutAStackSaysHowToStartOne(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	dir := t.TempDir()
	env := func(name string) string { return map[string]string{"QUEEN_STACK_DIR": dir}[name] }
	code := run(t.Context(), nil, env, &stdout, &stderr)
	if said := stderr.String(); code != exitBad || !strings.Contains(said, "make up") || !strings.Contains(said, dir) {
		t.Errorf("exit code %d, said %q; want %d and a hint", code, said, exitBad)
	}
}

func TestRunFindsTheEdgeInStackJSON(t *testing.T) {
	t.Parallel()
	b := newBroker()
	server := httptest.NewServer(b)
	defer server.Close()
	dir := t.TempDir()
	state := fmt.Sprintf(`{"version":1,"edge":%q}`, server.URL)
	if err := os.WriteFile(filepath.Join(dir, "stack.json"), []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	args := []string{"--stack-dir", dir, "--file", lines(t, 3)}
	if code := run(t.Context(), args, func(string) string { return "" }, &stdout, &stderr); code != exitGood {
		t.Errorf("exit code %d\n%s\n%s", code, stdout.String(), stderr.String())
	}
	if !strings.Contains(stdout.String(), server.URL+": queue lines.input, run ") {
		t.Errorf("the output does not name cell and queue:\n%s", stdout.String())
	}
}
