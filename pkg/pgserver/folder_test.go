package pgserver

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpenFolder(t *testing.T) {
	t.Parallel()
	who, err := chooseAccount()
	if err != nil {
		t.Fatal(err)
	}

	t.Run("IsRefusedWhileAnotherHoldsIt", func(t *testing.T) {
		t.Parallel()
		path := serverFolder(t)
		first, err := openFolder(path, who, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := openFolder(path, who, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("second holder: %v", err)
		}
		first.release()
		third, err := openFolder(path, who, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatalf("after the release: %v", err)
		}
		third.release()
	})

	t.Run("GoesElsewhereWhenItsUserCannotEnter", func(t *testing.T) {
		t.Parallel()
		base := serverFolder(t)
		closed := filepath.Join(base, "closed")
		if err := os.Mkdir(closed, 0o700); err != nil {
			t.Fatal(err)
		}
		// Only another user is kept out; without root the server runs as the current one, who may enter.
		if got, want := who.canEnter(closed), who.credential == nil; got != want {
			t.Fatalf("canEnter = %v", got)
		}
		other, err := replacement(closed, who, []string{filepath.Join(base, "missing"), closedTo(t, base), base})
		if err != nil {
			t.Fatal(err)
		}
		again, err := replacement(closed, who, []string{filepath.Join(base, "missing"), base})
		if err != nil || (who.credential != nil && again != other) {
			t.Errorf("first %s, then %s, %v", other, again, err)
		}
		if !who.canEnter(other) {
			t.Errorf("%s cannot be entered", other)
		}
	})

	t.Run("RefusesAPreparedFolderThatOthersMayWrite", func(t *testing.T) {
		t.Parallel()
		base := serverFolder(t)
		other, err := replacement("/somewhere", who, []string{base})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(other, 0o777); err != nil {
			t.Fatal(err)
		}
		if _, err := replacement("/somewhere", who, []string{base}); err == nil {
			t.Error("a folder that everybody may write was taken")
		}
	})
}

func closedTo(t *testing.T, base string) string {
	t.Helper()
	path := filepath.Join(base, "also-closed")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPasswordIsNeverReplacedUnderACluster(t *testing.T) {
	t.Parallel()
	f := &folder{path: t.TempDir()}
	first, err := f.password()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := f.password(); err != nil || again != first {
		t.Errorf("second reading: same %v, %v", again == first, err)
	}
	info, err := os.Stat(f.file("password"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := os.MkdirAll(f.data(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.data(), "PG_VERSION"), []byte("15\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(f.file("password")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.password(); err == nil || !strings.Contains(err.Error(), f.file("password")) {
		t.Errorf("password of a cluster was lost: %v", err)
	}
}
