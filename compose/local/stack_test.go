package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	lifeline "queen.internal/pkg/pgserver/process"
)

func TestStackRunsAndSaysWhereEverythingIs(t *testing.T) {
	t.Parallel()
	s, log := startStack(t, Options{
		Ingest: 2, Deliver: 2, Env: []string{"FAKE_UNHEALTHY=3"},
		ServiceEnv: map[string][]string{Console: {"LOG_LEVEL=debug"}},
	})

	info, err := os.Stat(filepath.Join(s.Dir(), "stack.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("stack.json: %v, %v", info, err)
	}
	state, err := ReadState(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if state.Version != 1 || state.Edge != s.URL(Edge) || state.Postgres.DSN != s.DSN() || state.Runner != os.Getpid() {
		t.Errorf("stack.json says %+v", state)
	}
	if !lifeline.Runs(state.Postgres.PID, state.Postgres.Argv) {
		t.Error("stack.json does not name the database's process")
	}
	var listed []string
	for _, p := range state.Processes {
		listed = append(listed, fmt.Sprintf("%s %d", p.Service, p.Copy))
		if !lifeline.Runs(p.PID, p.Argv) || p.PID != s.PID(p.Service, p.Copy) {
			t.Errorf("pid and argv of %s %d do not name its process", p.Service, p.Copy)
		}
		if status, _ := get(t, p.URL+"/health"); status != 200 {
			t.Errorf("%s/health: %d", p.URL, status)
		}
		if text, err := os.ReadFile(p.Log); err != nil || !strings.Contains(string(text), "serving on") {
			t.Errorf("%s holds %q, %v", p.Log, text, err)
		}
		if got := environmentOf(t, p.URL); !contains(got, p.Env) {
			t.Errorf("%s %d runs with another environment than stack.json says", p.Service, p.Copy)
		}
	}
	want := []string{"ingest 1", "ingest 2", "deliver 1", "deliver 2", "maintainer 1", "console 1", "edge 1"}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Error(diff)
	}
	for _, prefix := range []string{"ingest.1   | serving", "ingest.2   | serving", "console    | serving", "edge       | serving", "stack      | PostgreSQL"} {
		log.await(t, prefix)
	}
	checkEnvironments(t, s)
}

func checkEnvironments(t *testing.T, s *Stack) {
	t.Helper()
	edge, ingest := environmentOf(t, s.URL(Edge)), environmentOf(t, s.URLs(Ingest)[1])
	want := map[string]string{
		"QUEEN_GATEWAY_MODE":   "edge",
		"QUEEN_INGEST_URL":     strings.Join(s.URLs(Ingest), ","),
		"QUEEN_DELIVER_URL":    strings.Join(s.URLs(Deliver), ","),
		"QUEEN_MAINTAINER_URL": s.URL(Maintainer),
		"QUEEN_CONSOLE_URL":    s.URL(Console),
		"QUEEN_DRAIN_DELAY_MS": "0",
		"QUEEN_BIND_ADDR":      "127.0.0.1",
	}
	if !contains(edge, want) {
		t.Errorf("the edge runs with %v", edge)
	}
	if len(s.URLs(Ingest)) != 2 || edge["PG_HOST"] != "" {
		t.Errorf("two ingest at %v, the edge's PG_HOST %q", s.URLs(Ingest), edge["PG_HOST"])
	}
	if ingest["QUEEN_SERVER_ID"] != "ingest-2" || ingest["PG_PASSWORD"] == "" || ingest["FILE_BUFFER_DIR"] != filepath.Join(s.Dir(), "spool") {
		t.Errorf("the second ingest runs with %v", ingest)
	}
	if got := environmentOf(t, s.URL(Console))["LOG_LEVEL"]; got != "debug" {
		t.Errorf("a setting for one service arrived as %q", got)
	}
	for name := range ingest {
		if foreign(name) && name != "PORT" && !strings.HasPrefix(name, "PG_") {
			t.Errorf("%s reached a service", name)
		}
	}
}

func contains(all, part map[string]string) bool {
	for name, value := range part {
		if all[name] != value {
			return false
		}
	}
	return true
}

func TestStackSurvivesTheEndOfItsParts(t *testing.T) {
	t.Parallel()
	s, log := startStack(t, Options{})

	// A crash is reported with its reason and not repaired.
	get(t, s.URL(Maintainer)+"/crash")
	<-s.Done(Maintainer, 1)
	log.await(t, "maintainer ended by itself (exit status 3); it is not restarted")
	log.await(t, "maintainer said: fatal: asked to crash")
	if status, _ := get(t, s.URL(Edge)+"/health"); status != 200 {
		t.Errorf("the edge after another's crash: %d", status)
	}
	if err := s.Kill(Maintainer, 1); err == nil {
		t.Error("killing an ended service is no error")
	}

	// What is ended on purpose is no crash, and comes back on the same address as a new process.
	pid, url := s.PID(Ingest, 1), s.URL(Ingest)
	if err := s.Kill(Ingest, 1); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(t.Context(), Ingest, 1); err != nil {
		t.Fatal(err)
	}
	if status, _ := get(t, url+"/health"); status != 200 || s.PID(Ingest, 1) == pid {
		t.Errorf("after the restart: %d, pid %d, before %d", status, s.PID(Ingest, 1), pid)
	}
	state, err := ReadState(s.Dir())
	if err != nil || state.Processes[0].PID != s.PID(Ingest, 1) {
		t.Errorf("stack.json names pid %d, %v", state.Processes[0].PID, err)
	}
	if strings.Contains(log.String(), "ingest ended by itself") {
		t.Error("a killed service was reported as a crash")
	}

	// The database keeps its address through a crash and an orderly stop.
	dsn := s.DSN()
	if err := s.KillDatabase(); err != nil {
		t.Fatal(err)
	}
	if s.DSN() != "" || s.StopDatabase(t.Context()) == nil {
		t.Error("a killed database counts as running")
	}
	if err := s.StartDatabase(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.StopDatabase(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.StartDatabase(t.Context()); err != nil || s.DSN() != dsn {
		t.Errorf("the database moved from %s to %s, %v", dsn, s.DSN(), err)
	}
	if err := s.SignalDatabase(syscall.SIGKILL); err != nil { // nobody said that it should end
		t.Fatal(err)
	}
	log.await(t, "PostgreSQL ended by itself (signal: killed)")
	if err := s.StartDatabase(t.Context()); err != nil {
		t.Errorf("after a crash of the database: %v", err)
	}
}

func TestStopEndsEverythingAndKeepsTheData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := &record{}
	opts := Options{Dir: dir, Binaries: binaries, Log: log, ServiceEnv: map[string][]string{Deliver: {"FAKE_STUBBORN=1"}}}
	s, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	data := s.db.Folder()
	t.Cleanup(func() {
		if err := os.RemoveAll(data); err != nil { // it may lie outside the test's folder
			t.Error(err)
		}
	})
	state, err := ReadState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), opts); !errors.As(err, new(*RunningError)) || !strings.Contains(err.Error(), s.URL(Edge)) {
		t.Errorf("a second stack in the same folder: %v", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("second stop: %v", err)
	}
	if !strings.Contains(s.Logs(Ingest), "stopping because of terminated") {
		t.Errorf("ingest was not asked to stop: %s", s.Logs(Ingest))
	}
	if !strings.Contains(log.String(), "deliver did not end in time and was killed") {
		t.Errorf("the stubborn service was not reported:\n%s", log)
	}
	if _, err := ReadState(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stack.json after the stop: %v", err)
	}
	for _, p := range state.Processes {
		if lifeline.Exists(p.PID) {
			t.Errorf("%s still exists", p.Service)
		}
	}
	if lifeline.Exists(state.Postgres.PID) {
		t.Error("the database still exists")
	}
	if err := s.Launch(Ingest, 1); !errors.Is(err, errStopped) {
		t.Errorf("a service of a stopped stack was started: %v", err)
	}

	password := state.Postgres.DSN
	s, err = Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if s.DSN() != password {
		t.Error("the database of the second start is another one")
	}
	if _, err := os.Stat(filepath.Join(dir, "logs", "ingest.log.1")); err != nil {
		t.Errorf("the log of the first run: %v", err)
	}
	short, cancel := context.WithCancel(t.Context())
	cancel() // as a second Ctrl-C does
	if err := s.Stop(short); err != nil {
		t.Error(err)
	}
}

func TestTwoStacksSideBySide(t *testing.T) {
	t.Parallel()
	first, _ := startStack(t, Options{})
	edge := first.processes[len(first.processes)-1].port
	// A second edge whose native neighbour is the first stack's edge: console is twelve above.
	second, log := startStack(t, Options{EdgePort: freeBelow(t, edge)})
	if !strings.HasSuffix(second.URL(Edge), fmt.Sprintf(":%d", edge-12)) {
		t.Errorf("the second edge is %s", second.URL(Edge))
	}
	log.await(t, fmt.Sprintf("port %d is taken, console gets ", edge))
	ports := map[string]bool{}
	for _, s := range []*Stack{first, second} {
		for _, p := range s.processes {
			ports[p.url()] = true
			if status, _ := get(t, p.url()+"/health"); status != 200 {
				t.Errorf("%s: %d", p.name, status)
			}
		}
	}
	if len(ports) != 10 {
		t.Errorf("the two stacks share addresses: %v", slices.Sorted(maps.Keys(ports)))
	}
}

// freeBelow gives the edge port whose console would get the given one.
func freeBelow(t *testing.T, port int) int {
	t.Helper()
	listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port-12))
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return port - 12
}

func TestStartNamesWhatIsAtFault(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	takenPort := taken.Addr().(*net.TCPAddr).Port

	cases := map[string]struct {
		opts    Options
		service string   // of the StartError; empty: another kind of error
		says    []string // parts of the error
	}{
		"AServiceThatEnds": {
			opts:    Options{ServiceEnv: map[string][]string{Deliver: {"FAKE_REFUSE=PG_PORT=\"x\" is not a number"}}},
			service: Deliver,
			says:    []string{"exit status 1", `fatal: PG_PORT="x" is not a number`, "logs/deliver.log"},
		},
		"AServiceWhosePortIsTaken": {
			opts:    Options{ServiceEnv: map[string][]string{Ingest: {fmt.Sprintf("PORT=%d", takenPort)}}},
			service: Ingest,
			says:    []string{"address already in use", "logs/ingest.log"},
		},
		"AServiceThatIsNeverHealthy": {
			opts: Options{
				HealthLimit: 2 * time.Second,
				ServiceEnv:  map[string][]string{Console: {"FAKE_UNHEALTHY=1000000"}, Edge: {"FAKE_UNHEALTHY=1000000"}},
			},
			service: Console,
			says:    []string{"not healthy within 2s", "503", `{"status":"unhealthy"}`, "logs/console.log"},
		},
		"AProgramThatIsMissing": {
			opts:    Options{Binaries: "/nowhere"},
			service: Ingest,
			says:    []string{"/nowhere/ingest", "no such file"},
		},
		"AnEdgePortThatIsTaken": {
			opts: Options{EdgePort: takenPort},
			says: []string{fmt.Sprintf("port %d for the edge is taken", takenPort), "EDGE_PORT"},
		},
		"AServiceThatDoesNotExist": {
			opts: Options{ServiceEnv: map[string][]string{"broker": nil}},
			says: []string{`"broker"`},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := c.opts
			opts.Dir, opts.Throwaway = t.TempDir(), true
			if opts.Binaries == "" {
				opts.Binaries = binaries
			}
			s, err := Start(t.Context(), opts)
			if err == nil {
				_ = s.Stop(t.Context())
				t.Fatal("the stack came up")
			}
			var start *StartError
			if errors.As(err, &start) != (c.service != "") || start != nil && start.Service != c.service {
				t.Errorf("error %T: %v", err, err)
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if err := Running(opts.Dir); err != nil {
				t.Errorf("after a failed start: %v", err)
			}
		})
	}
}

// heldStack is a stack whose runner is another process.
func heldStack(t *testing.T) (dir string, runner *exec.Cmd, state State) {
	t.Helper()
	dir = t.TempDir()
	// A strict umask must not lock the database's user out of its folder.
	runner = exec.Command("/bin/sh", "-c", `umask 077; exec "$0"`, os.Args[0])
	runner.Env = append(os.Environ(), holderVariable+"="+dir, binariesVariable+"="+binaries)
	out, err := runner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 3)
	if _, err := out.Read(line); err != nil || string(line) != "up\n" {
		t.Fatalf("the runner said %q, %v", line, err)
	}
	if state, err = ReadState(dir); err != nil {
		t.Fatal(err)
	}
	return dir, runner, state
}

func allGone(state State) bool {
	return !anyRuns(state.Processes) && !lifeline.Runs(state.Postgres.PID, state.Postgres.Argv)
}

func TestDownStopsARunningStack(t *testing.T) {
	t.Parallel()
	dir, runner, state := heldStack(t)
	ended := make(chan error, 1)
	go func() { ended <- runner.Wait() }()
	if stopped, err := Down(t.Context(), dir); !stopped || err != nil {
		t.Fatalf("stopped %v, %v", stopped, err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the runner ended with %v", err)
	}
	if !allGone(state) {
		t.Error("something still runs")
	}
	if stopped, err := Down(t.Context(), dir); stopped || err != nil {
		t.Errorf("second time: stopped %v, %v", stopped, err)
	}
}

func TestNothingOutlivesAKilledRunner(t *testing.T) {
	t.Parallel()
	dir, runner, state := heldStack(t)
	if err := runner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = runner.Wait()
	if !waitUntil(t.Context(), stackLimit, func() bool { return allGone(state) }) {
		t.Fatal("something still runs")
	}
	removed := func() bool { _, err := os.Stat(state.Postgres.Data); return errors.Is(err, fs.ErrNotExist) }
	if !waitUntil(t.Context(), stackLimit, removed) {
		t.Fatal("the throw-away database is still there")
	}
	// Its stack.json is still there and fools nobody.
	if _, err := ReadState(dir); err != nil {
		t.Fatal(err)
	}
	if err := Running(dir); err != nil {
		t.Errorf("a dead stack counts as running: %v", err)
	}
	startStack(t, Options{Dir: dir})
	if again, err := ReadState(dir); err != nil || again.Runner != os.Getpid() {
		t.Errorf("stack.json of the new stack: %+v, %v", again, err)
	}
}

func TestDownSignalsOnlyWhatTheStateDescribes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func(seconds string) (*exec.Cmd, chan struct{}) {
		cmd, gone := exec.Command("sleep", seconds), make(chan struct{})
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			_ = cmd.Wait()
			close(gone)
		}()
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			<-gone
		})
		return cmd, gone
	}
	left, leftGone := start("600")
	stranger, strangerGone := start("601")
	sleeps := func(cmd *exec.Cmd) func() bool {
		return func() bool { return lifeline.Runs(cmd.Process.Pid, cmd.Args) }
	}
	if !waitUntil(t.Context(), stackLimit, sleeps(left)) || !waitUntil(t.Context(), stackLimit, sleeps(stranger)) {
		t.Fatal("the sleepers do not sleep")
	}
	state := State{Version: stateVersion, Processes: []ProcessState{
		{Service: Ingest, PID: left.Process.Pid, Argv: []string{"sleep", "600"}},
		{Service: Deliver, PID: stranger.Process.Pid, Argv: []string{"/bin/deliver"}},
	}}
	if err := state.write(dir); err != nil {
		t.Fatal(err)
	}
	if stopped, err := Down(t.Context(), dir); !stopped || err != nil {
		t.Fatalf("stopped %v, %v", stopped, err)
	}
	<-leftGone
	select {
	case <-strangerGone:
		t.Error("a process that only has the same number was ended")
	default:
	}
	if _, err := ReadState(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stack.json: %v", err)
	}
}
