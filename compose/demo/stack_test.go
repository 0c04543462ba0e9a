package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"queen.internal/compose/local"
)

// The real thing, two of each: the history of a repository goes in and every promise is kept, though a worker dies.
func TestRunAgainstARealStack(t *testing.T) {
	t.Parallel()
	dir := stackFolder(t)
	root, err := local.Root(".")
	if err != nil {
		t.Fatal(err)
	}
	if err := local.Build(t.Context(), root, local.BinFolder(dir), "test"); err != nil {
		t.Fatal(err)
	}
	stack, err := local.Start(t.Context(), local.Options{Dir: dir, Ingest: 2, Deliver: 2, Throwaway: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
		defer cancel()
		if err := stack.Stop(ctx); err != nil {
			t.Error(err)
		}
	}()

	for name, args := range map[string][]string{
		"history": {"--repo", history(t, 40)}, "file": {"--file", lines(t, 3000), "--partition-key", "who"},
	} {
		var stdout, stderr bytes.Buffer
		f := finished{code: run(t.Context(), append(args, "--stack-dir", dir), os.Getenv, &stdout, &stderr)}
		f.stdout, f.stderr = stdout.String(), stderr.String()
		messages := map[string]string{"history": "120", "file": "3 000"}[name]
		f.expect(t, exitGood, map[string]string{
			"messages in": messages + "," + messages, "delivered": messages + "," + messages,
			"out of order": "0,0", "lost": "0,0", "altered": "0,0",
		})
		if again := f.row("redelivered"); len(again) != 2 || again[1] == "0" {
			t.Errorf("%s: redelivered %v, want some in the group that lost a worker\n%s", name, again, f.stdout)
		}
	}
}

// stackFolder is a folder that the database's account can enter, which those of t.TempDir are not.
func stackFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "queen-demo-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// history is a repository with that many commits, each of which touches one file in each of three folders.
func history(t *testing.T, commits int) string {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		args = append([]string{"-C", dir, "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"}, args...)
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	for i := range commits {
		for _, folder := range []string{"a/b", "with blank", "ünï"} {
			path := filepath.Join(dir, folder, "file")
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(strings.Repeat("x", i+1)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		git("add", "-A")
		git("commit", "-q", "-m", "change <all> & more")
	}
	return dir
}
