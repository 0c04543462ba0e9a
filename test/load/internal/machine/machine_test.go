package machine

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestStatLineIsReadBehindAnyName(t *testing.T) {
	t.Parallel()
	got, err := parseStat(7, "7 (a) b (c) S 3 7 7 0 -1 4194304 1 2 3 4 150 50 7 3 20 0 1 0 100 0 0")
	if want := (stat{7, 3, 2 * time.Second, 100 * time.Millisecond}); err != nil || got != want {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
	for _, line := range []string{"", "7 (a) S 3", "7 (a) S 3 7 7 0 -1 4194304 1 2 3 4 x 50 7 3 20"} {
		if got, err := parseStat(7, line); err == nil {
			t.Errorf("%q: %+v", line, got)
		}
	}
}

// burn takes processor time in a child of the test and waits for it.
func burn(t *testing.T) {
	t.Helper()
	if err := exec.CommandContext(t.Context(), "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done").Run(); err != nil {
		t.Fatal(err)
	}
}

func TestTreeCountsChildrenThatHaveEnded(t *testing.T) {
	t.Parallel()
	w, err := Start([]Process{{"alone", os.Getpid(), false}, {"tree", os.Getpid(), true}})
	if err != nil {
		t.Fatal(err)
	}
	burn(t)
	seen, err := w.Stop()
	if err != nil {
		t.Fatal(err)
	}
	usage := seen.Usage
	if alone, tree := usage[0], usage[1]; tree.CPU <= alone.CPU || tree.CPU < 0.02 || alone.Peak < 1<<20 || tree.Peak < 1<<20 || seen.Own < 0 || seen.Others < 0 {
		t.Errorf("%+v", seen)
	}
}

func TestProcessThatDoesNotExist(t *testing.T) {
	t.Parallel()
	if _, err := Start([]Process{{"nobody", 1 << 30, false}}); err == nil {
		t.Error("watched")
	}
	if n, err := Resident(os.Getpid()); err != nil || n < 1<<20 {
		t.Error(n, err)
	}
}

func TestSyncProbeLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if d, err := Sync(folder); err != nil || d <= 0 {
		t.Error(d, err)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) > 0 {
		t.Error(entries, err)
	}
}
