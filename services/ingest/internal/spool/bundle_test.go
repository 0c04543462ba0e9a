package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"queen.internal/services/ingest/internal/spool/brittle"
)

func TestMain(m *testing.M) {
	if root := os.Getenv(writerRoot); root != "" {
		fmt.Println(keepWriting(root))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// bundle is a root on a disk that can be made to fail.
type bundle struct {
	disk   *brittle.Disk
	o      Options
	folder *Folder
}

func setup(t testing.TB, change ...func(*Options)) *bundle {
	t.Helper()
	b := &bundle{disk: &brittle.Disk{}}
	b.o = Options{FS: b.disk, Root: filepath.Join(t.TempDir(), "spool"), Server: "ingest-0", FileBytes: 1 << 20, FileRecords: 1000}
	for _, c := range change {
		c(&b.o)
	}
	b.folder = b.open(t)
	return b
}

func (b *bundle) open(t testing.TB) *Folder {
	t.Helper()
	f, err := Open(b.o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (b *bundle) create(t testing.TB) *Spool {
	t.Helper()
	s, err := b.folder.Create()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// adopt takes every dead spool of the root, as a process does that starts.
func (b *bundle) adopt(t testing.TB) *Spool {
	t.Helper()
	names, err := b.folder.Dead(true)
	if err != nil || len(names) != 1 {
		t.Fatalf("%v %v", names, err)
	}
	s := b.claim(t, names[0])
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// claim adopts a spool whose owner is dead. Another test of this program may be starting a process, which has all locks of
// ours from its fork to its exec.
func (b *bundle) claim(t testing.TB, name Name) *Spool {
	t.Helper()
	for {
		s, err := b.folder.Adopt(name)
		if errors.Is(err, ErrAlive) && t.Context().Err() == nil {
			runtime.Gosched()
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// die ends a spool as the death of its process does: nothing more is written and the lock is gone.
func die(t testing.TB, s *Spool) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func entry(text string) []Entry { return []Entry{{Version: 1, Body: []byte(text)}} }

func push(t testing.TB, s *Spool, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := s.Append(entry(text)); err != nil {
			t.Fatal(err)
		}
	}
}

// drain reads what is there and settles it.
func drain(t testing.TB, s *Spool) (texts []string) {
	t.Helper()
	for {
		item, err := s.Next()
		if err == io.EOF {
			return texts
		}
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(item.Body))
		s.Settle(item)
	}
}

func numbered(from, to int) (texts []string) {
	for i := from; i < to; i++ {
		texts = append(texts, fmt.Sprintf("record %d", i))
	}
	return texts
}

// files are the paths of a spool's files by number.
func (b *bundle) files(t testing.TB, s *Spool) (paths []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(b.folder.path(s.name), "*"+fileSuffix))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// copyOf is a root with a copy of that spool's files, whose dead owner nobody has adopted.
func (b *bundle) copyOf(t testing.TB, s *Spool, root string) *bundle {
	t.Helper()
	c := &bundle{disk: &brittle.Disk{}, o: b.o}
	c.o.FS, c.o.Root = c.disk, root
	c.folder = c.open(t)
	to := c.folder.path(s.name)
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(b.folder.path(s.name))); err != nil {
		t.Fatal(err)
	}
	return c
}

// kept are the names of what was set aside.
func (b *bundle) kept(t testing.TB) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(b.folder.asidePath())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func emptied(t testing.TB, s *Spool) {
	t.Helper()
	if empty, err := s.Reclaim(); err != nil || !empty {
		t.Fatalf("empty: %v, %v", empty, err)
	}
}

func spoolName() Name { return Name{Server: "ingest-0", ID: uuid.Must(uuid.NewV7())} }
