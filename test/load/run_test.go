package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"queen.internal/compose/local"
	"queen.internal/test/internal/cell"
)

var world cell.World

func TestMain(m *testing.M) { os.Exit(cell.Main(m, &world)) }

// loaded runs the program against a shared stack and returns what it found.
func loaded(t *testing.T, args ...string) report {
	t.Helper()
	c := world.Shared(t, "load", local.Options{})
	path := filepath.Join(t.TempDir(), "load.json")
	args = append([]string{"-stack-dir", c.Stack.Dir(), "-quiet", "-json", path, "-warmup", "0s", "-poll-timeout", "100ms"}, args...)
	var out, progress strings.Builder
	if err := run(t.Context(), args, &out, &progress); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), progress.String())
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\nprocess ") || !strings.Contains(out.String(), "\nsent ") {
		t.Errorf("printed\n%s", out.String())
	}
	return r
}

// whole fails unless every group got everything.
func (r report) whole(t *testing.T, groups int) {
	t.Helper()
	if r.Sent == 0 || r.Doubtful > 0 || len(r.Groups) != groups {
		t.Fatalf("%d sent, %d doubtful, groups %+v", r.Sent, r.Doubtful, r.Groups)
	}
	for i, g := range r.Groups {
		if g.Delivered != r.Sent || g.Faults() > 0 || g.Left > 0 {
			t.Errorf("group %d of %d sent: %+v", i, r.Sent, g)
		}
	}
}

func TestEveryGroupGetsEverythingThatWasPushed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		groups int
		args   []string
	}{
		"Batches":   {1, []string{"-duration", "300ms", "-producers", "4", "-consumers", "4", "-batch", "20", "-partitions", "16"}},
		"Singles":   {1, []string{"-duration", "300ms", "-producers", "8", "-consumers", "8", "-batch", "1", "-groups", "0", "-edge"}},
		"Groups":    {3, []string{"-duration", "300ms", "-producers", "2", "-consumers", "6", "-groups", "3", "-batch", "50", "-pop-batch", "7", "-partitions", "8"}},
		"Spread":    {1, []string{"-duration", "300ms", "-producers", "2", "-consumers", "2", "-spread", "-pop-partitions", "5", "-partitions", "10", "-random", "1", "-payload", "40"}},
		"Scheduled": {1, []string{"-duration", "300ms", "-producers", "2", "-consumers", "4", "-batch", "1", "-rate", "50", "-partitions", "4"}},
		"Tenant":    {1, []string{"-duration", "300ms", "-consumers", "4", "-backlog", "500", "-producers", "2", "-tenant", "7b1c44a0-4fd8-4b64-8a2b-6d7f5dd3a001"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := loaded(t, test.args...)
			r.whole(t, test.groups)
			if f := r.Turns[0]; f.Seconds == 0 || len(f.Usage) != 6 || f.Failed > 0 {
				t.Errorf("%+v", f)
			}
		})
	}
}

func TestPopsThatAckThemselvesLoseNothingEither(t *testing.T) {
	t.Parallel()
	r := loaded(t, "-duration", "200ms", "-producers", "2", "-consumers", "1", "-auto-ack", "-batch", "10", "-partitions", "8")
	r.whole(t, 1)
	if r.Turns[0].Acked != 0 {
		t.Errorf("%+v", r.Turns[0])
	}
}

func TestYardsticksTakeTurnsWithTheLoad(t *testing.T) {
	t.Parallel()
	r := loaded(t, "-duration", "200ms", "-producers", "2", "-consumers", "2", "-pairs", "2", "-yardstick", "segment-insert,row-insert,row-latency,segment-select")
	r.whole(t, 1)
	if len(r.Turns) != 2 || len(r.Yardsticks) != 4 || len(r.SyncMillis) != 2 {
		t.Fatalf("%d turns, yardsticks %v", len(r.Turns), r.Yardsticks)
	}
	for name, turns := range r.Yardsticks {
		if len(turns) != 2 || turns[0].Seconds == 0 {
			t.Errorf("%s: %+v", name, turns)
		}
	}
}

func TestLoadOnNobodyFails(t *testing.T) {
	t.Parallel()
	nobody := []string{"-stack-dir", t.TempDir(), "-ingest", "127.0.0.1:1", "-deliver", "127.0.0.1:1", "-quiet", "-duration", "100ms", "-warmup", "0s", "-drain", "0"}
	var out strings.Builder
	if err := run(t.Context(), nobody, &out, &out); err == nil || !strings.Contains(err.Error(), "calls failed") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if err := run(t.Context(), []string{"-stack-dir", t.TempDir()}, &out, &out); err == nil || !strings.Contains(err.Error(), "make up") {
		t.Error(err)
	}
}

func TestCommandLineIsChecked(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-producers", "0", "-consumers", "0"},
		{"-consumers", "2", "-groups", "3"},
		{"-batch", "0"},
		{"-duration", "0s"},
		{"-warmup", "-1s"},
		{"-yardstick", "none"},
		{"-partitions", "0"},
		{"-payload", "3"},
		{"more"},
		{"-no-such-flag"},
	} {
		var out strings.Builder
		args = append([]string{"-ingest", "127.0.0.1:1", "-deliver", "127.0.0.1:1", "-stack-dir", t.TempDir()}, args...)
		if err := run(t.Context(), args, &out, &out); err == nil || strings.Contains(err.Error(), "calls failed") {
			t.Errorf("%q: %v", args, err)
		}
	}
	var out strings.Builder
	if err := run(t.Context(), []string{"--help"}, &out, &out); err != nil || !strings.Contains(out.String(), "-producers") {
		t.Errorf("%v: %s", err, out.String())
	}
}
