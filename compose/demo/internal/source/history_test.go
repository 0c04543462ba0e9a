package source_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/compose/demo/internal/source"
)

// repository is a git repository with a commit per call of commit.
type repository struct {
	t   *testing.T
	dir string
}

func newRepository(t *testing.T) repository {
	r := repository{t, t.TempDir()}
	r.git("init", "-q")
	return r
}

func (r repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{
		"-C", r.dir, "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false",
	}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=2026-01-02T03:04:05+00:00", "GIT_COMMITTER_DATE=2026-01-02T03:04:05+00:00")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r repository) write(path, text string) {
	r.t.Helper()
	full := filepath.Join(r.dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r repository) commit(subject string) string {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "--allow-empty-message", "-m", subject)
	return r.git("rev-parse", "HEAD")
}

func TestHistory(t *testing.T) {
	t.Parallel()

	t.Run("YieldsEachTouchedFileOldestFirst", func(t *testing.T) {
		t.Parallel()
		r := newRepository(t)
		odd := "a/line\nfeed \"é\".txt"
		r.write(odd, "1")
		r.write("top", "1")
		first := r.commit("commit one: all")
		r.git("mv", odd, "b")
		second := r.commit("move")
		r.commit("nothing")
		r.git("checkout", "-q", "-b", "side", first)
		r.write("side/x", "1")
		side := r.commit("beside")
		r.git("checkout", "-q", "-")
		r.git("merge", "-q", "--no-edit", "side")
		r.write("tab\there/x", "1")
		last := r.commit("")

		type row struct{ Partition, Commit, Subject, Change, Path string }
		var got []row
		for record, err := range source.History(t.Context(), r.dir) {
			if err != nil {
				t.Fatal(err)
			}
			var c source.Change
			if err := json.Unmarshal(record.Payload, &c); err != nil {
				t.Fatal(err)
			}
			if c.Author != "Ada" || c.Time != "2026-01-02T03:04:05+00:00" {
				t.Errorf("author %q, time %q", c.Author, c.Time)
			}
			got = append(got, row{record.Partition, c.Commit, c.Subject, c.Change, c.Path})
		}
		want := []row{
			{"a", first, "commit one: all", "A", odd},
			{"(root)", first, "commit one: all", "A", "top"},
			{"side", side, "beside", "A", "side/x"},
			{"a", second, "move", "D", odd},
			{"(root)", second, "move", "A", "b"},
			{"tab\ufffdhere", last, "", "A", "tab\there/x"},
		}
		// Between branches the order is git's; within each it is the order of the commits.
		if len(got) == len(want) && got[2].Commit == second {
			want[2], want[3], want[4] = want[3], want[4], want[2]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("IsTheSameEveryTime", func(t *testing.T) {
		t.Parallel()
		r := newRepository(t)
		for _, name := range []string{"a/1", "b/2", "c/3"} {
			r.write(name, name)
			r.commit(name)
		}
		read := func() (all []string) {
			for record, err := range source.History(t.Context(), r.dir) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, string(record.Payload))
			}
			return all
		}
		if diff := cmp.Diff(read(), read()); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("ShallowCloneIsToldToUseAFile", func(t *testing.T) {
		t.Parallel()
		r := newRepository(t)
		r.write("x", "1")
		r.commit("one")
		r.write("x", "2")
		r.commit("two")
		clone := filepath.Join(t.TempDir(), "clone")
		r.git("clone", "-q", "--depth", "1", "file://"+r.dir, clone)
		err := onlyError(t, source.History(t.Context(), clone))
		if !errors.Is(err, source.ErrShallow) || !strings.Contains(err.Error(), "--file") {
			t.Errorf("error %v, want %v", err, source.ErrShallow)
		}
	})

	t.Run("FolderWithoutARepositoryIsAnError", func(t *testing.T) {
		t.Parallel()
		err := onlyError(t, source.History(t.Context(), t.TempDir()))
		if err == nil || !strings.Contains(err.Error(), "not a git repository") {
			t.Errorf("error %v, want git's own words", err)
		}
	})

	t.Run("RepositoryWithoutCommitsIsAnError", func(t *testing.T) {
		t.Parallel()
		if err := onlyError(t, source.History(t.Context(), newRepository(t).dir)); err == nil {
			t.Error("no error")
		}
	})

	t.Run("StopsWhenNoMoreIsWanted", func(t *testing.T) {
		t.Parallel()
		r := newRepository(t)
		r.write("a", "1")
		r.write("b", "1")
		r.commit("two files")
		n := 0
		for _, err := range source.History(t.Context(), r.dir) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			break
		}
		if n != 1 {
			t.Errorf("%d records, want 1", n)
		}
	})
}

// onlyError is the error that records yields before any record.
func onlyError(t *testing.T, records source.Records) error {
	t.Helper()
	for record, err := range records {
		if err == nil {
			t.Fatalf("record %s", record.Payload)
		}
		return err
	}
	return nil
}
