package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	t.Parallel()
	logger := slog.New(slog.DiscardHandler)

	t.Run("GivesTheCommandAServerAndReturnsItsCode", func(t *testing.T) {
		t.Parallel()
		seen := filepath.Join(t.TempDir(), "dsn")
		code, err := run(t.Context(), logger, []string{"sh", "-c", `printf %s "$QUEEN_TEST_PG" > "$0"; exit 7`, seen})
		if code != 7 || err != nil {
			t.Fatalf("code %d, %v", code, err)
		}
		dsn, err := os.ReadFile(seen)
		if err != nil || !strings.HasPrefix(string(dsn), "postgres://postgres:") {
			t.Fatalf("the command saw %q, %v", dsn, err)
		}
		if conn, err := pgx.Connect(t.Context(), string(dsn)); err == nil {
			_ = conn.Close(t.Context())
			t.Error("the server outlived the command")
		}
	})

	t.Run("ReportsASignalAsAShellDoes", func(t *testing.T) {
		t.Parallel()
		if code, err := run(t.Context(), logger, []string{"--", "sh", "-c", `kill -KILL $$`}); code != 128+9 || err != nil {
			t.Errorf("code %d, %v", code, err)
		}
	})

	t.Run("NeedsACommand", func(t *testing.T) {
		t.Parallel()
		if code, err := run(t.Context(), logger, []string{"--"}); code != 2 || err == nil {
			t.Errorf("code %d, %v", code, err)
		}
	})

	t.Run("NamesACommandThatDoesNotExist", func(t *testing.T) {
		t.Parallel()
		code, err := run(t.Context(), logger, []string{"/nowhere/at-all"})
		if code == 0 || err == nil || !strings.Contains(err.Error(), "/nowhere/at-all") {
			t.Errorf("code %d, %v", code, err)
		}
	})
}
