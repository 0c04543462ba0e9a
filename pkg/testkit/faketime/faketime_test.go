package faketime_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"queen.internal/pkg/testkit/faketime"
)

func TestAClockIsWhatItWasSetTo(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	clock, binaries, err := faketime.New(folder)
	if !faketime.Installed() {
		if !errors.Is(err, faketime.ErrNotInstalled) {
			t.Error(err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for offset, want := range map[time.Duration]string{-300 * time.Second: "-300\n", 2 * time.Second: "+2\n", 0: "+0\n"} {
		if err := clock.Set(offset); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(folder, "offset")); err != nil || string(got) != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	if out, err := exec.Command(filepath.Join(binaries.Folder, "postgres"), "--version").Output(); err != nil {
		t.Errorf("%s, %v", out, err)
	}
}
