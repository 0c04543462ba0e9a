package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unusable are settings of a spool whose folder cannot be made.
func unusable(t *testing.T) Spool {
	t.Helper()
	s := defaults().Spool
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Dir = filepath.Join(file, "spool")
	return s
}

func TestFallback_IsTakenWhenItIsAllowed(t *testing.T) {
	t.Parallel()
	s, temp, logs := unusable(t), t.TempDir(), newLines()
	s.AllowFallback = true
	folder, err := s.open("ingest-0", temp, slog.New(logs))
	if err != nil {
		t.Fatal(err)
	}
	logs.await(t, "the spool's folder cannot be used, pushes are kept among the temporary files")
	if want := filepath.Join(temp, "queen-buffers"); s.Dir != want {
		t.Errorf("it is %s, want %s", s.Dir, want)
	}
	made, err := folder.Create()
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Remove(); err != nil {
		t.Error(err)
	}
}

func TestFallback_IsNotTakenUnasked(t *testing.T) {
	t.Parallel()
	s, temp := unusable(t), t.TempDir()
	if _, err := s.open("ingest-0", temp, slog.New(newLines())); err == nil || !strings.Contains(err.Error(), "FILE_BUFFER_DIR") {
		t.Errorf("opened with %v", err)
	}
	if made, err := os.ReadDir(temp); err != nil || len(made) > 0 {
		t.Errorf("%v, %v", made, err)
	}
	good := defaults().Spool
	good.Dir, good.AllowFallback = filepath.Join(t.TempDir(), "spool"), true
	want := good.Dir
	if _, err := good.open("ingest-0", temp, slog.New(newLines())); err != nil || good.Dir != want {
		t.Errorf("a folder that can be used became %s, %v", good.Dir, err)
	}
}

func TestFallback_IsNothingThatOthersCanWriteTo(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(path string) error{
		"open to others": func(path string) error {
			if err := os.Mkdir(path, 0o700); err != nil {
				return err
			}
			return os.Chmod(path, 0o777)
		},
		"a link": func(path string) error { return os.Symlink(filepath.Dir(path), path) },
		"a file": func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, temp := unusable(t), t.TempDir()
			s.AllowFallback = true
			if err := prepare(filepath.Join(temp, "queen-buffers")); err != nil {
				t.Fatal(err)
			}
			_, err := s.open("ingest-0", temp, slog.New(newLines()))
			if err == nil || !strings.Contains(err.Error(), "FILE_BUFFER_DIR") || !strings.Contains(err.Error(), "QUEEN_SPOOL_ALLOW_FALLBACK") {
				t.Errorf("opened with %v", err)
			}
		})
	}
}
