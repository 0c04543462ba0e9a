package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/compose/local"
	"queen.internal/test/chaos/internal/campaign"
)

var (
	span  = flag.Duration("chaos.for", 36*time.Second, "how long load and faults go on in each run of the short tier; with start, healing and end that is 45 s")
	first = flag.Uint64("chaos.seed", 1, "of the first run of the short tier")
)

// tier is what the runs of the short tier are made of: seeds follow each other.
var tier = []struct{ workloads, faults string }{
	{"log,queue", "kill,database"},
	{"queue,dedup", "cut"},
	{"log,dedup", "kill,disk,lock"},
	{"queue", "pause,swing"},
	{"log,queue,dedup", "database,delay,cut"},
	{"dedup,log", "torn,kill,cut"},
	{"queue,log", "clock"},
}

//go:embed regressions.txt
var regressions []byte

// again are the runs that have failed once.
func again(t *testing.T) (lines [][]string) {
	t.Helper()
	for text := bufio.NewScanner(bytes.NewReader(regressions)); text.Scan(); {
		line, _, _ := strings.Cut(text.Text(), "#")
		if fields := strings.Fields(line); len(fields) == 4 {
			lines = append(lines, fields)
		} else if len(fields) > 0 {
			t.Fatalf("regressions.txt: %q", text.Text())
		}
	}
	return lines
}

// One run after the other: each has the machine to itself, as far as other packages let it.
func TestNothingBreaksQueen(t *testing.T) {
	t.Parallel()
	binaries := t.TempDir()
	root, err := local.Root(".")
	if err != nil {
		t.Fatal(err)
	}
	if err := local.Build(t.Context(), root, binaries, "test"); err != nil {
		t.Fatal(err)
	}
	for i, run := range tier {
		attempt(t, binaries, fmt.Sprint(*first+uint64(i)), run.workloads, run.faults, span.String())
	}
	for _, run := range again(t) {
		attempt(t, binaries, run...)
	}
}

// attempt makes one run. What it leaves behind is kept when it is not valid.
func attempt(t *testing.T, binaries string, run ...string) {
	t.Helper()
	folder, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	o, err := parse([]string{"-seed", run[0], "-workload", run[1], "-faults", run[2], "-t", run[3], "-binaries", binaries, "-dir", folder, "-floor", "200"}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	v, err := campaign.Run(t.Context(), o.Options)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %s: %s", run[0], v.Line())
	if v.Verdict != campaign.Valid {
		t.Errorf("seed %s: %s", run[0], v.Report())
	}
}

func TestTheCommandLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"list"}, &out, &out); err != nil || !strings.Contains(out.String(), "fault    kill      F1") {
		t.Errorf("%v: %s", err, out.String())
	}
	o, err := parse([]string{"-seed", "7", "-workload", "W2,log", "-faults", "kill,F5", "-t", "2m"}, &out)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{o.Workloads[0].Name, o.Workloads[1].Name, o.Faults[0].Name, o.Faults[1].Name, o.Longest.String(), fmt.Sprint(o.Floor)}
	if diff := cmp.Diff([]string{"queue", "log", "kill", "cut", "24s", "960"}, got); diff != "" {
		t.Error(diff)
	}
	if o, err = parse([]string{"-faults", "none"}, &out); err != nil || len(o.Faults) != 0 {
		t.Errorf("%+v, %v", o.Faults, err)
	}
	for _, wrong := range [][]string{{"-workload", "nothing"}, {"-faults", "meteor"}, {"-t", "0s"}, {"-runs", "0"}, {"more"}, {"-workload", ""}} {
		if _, err := parse(wrong, &out); err == nil {
			t.Errorf("%v: no error", wrong)
		}
	}
	if err := run(t.Context(), []string{"dance"}, &out, &out); err == nil {
		t.Error("an unknown command is no error")
	}
}

// A stand that does not come up is no verdict about Queen, and what it left is kept.
func TestARunThatCannotStartIsUnknown(t *testing.T) {
	t.Parallel()
	o, err := parse([]string{"-faults", "none", "-binaries", t.TempDir(), "-dir", filepath.Join(t.TempDir(), "run")}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	v, err := campaign.Run(t.Context(), o.Options)
	if err != nil || v.Verdict != campaign.Unknown || !strings.Contains(v.Report(), "go run ./chaos run -seed 1 ") {
		t.Errorf("%+v, %v", v, err)
	}
	if kept, err := os.ReadFile(filepath.Join(v.Dir, "verdict.txt")); err != nil || string(kept) != v.Report() {
		t.Errorf("%s, %v", kept, err)
	}
}
