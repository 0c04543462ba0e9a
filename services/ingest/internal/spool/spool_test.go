package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecordsAreReadOnceInTheirOrder(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.FileRecords = 3 })
	s := b.create(t)
	push(t, s, numbered(0, 4)...)
	if diff := cmp.Diff(numbered(0, 4), drain(t, s)); diff != "" {
		t.Error(diff)
	}
	push(t, s, numbered(4, 10)...)
	if diff := cmp.Diff(numbered(4, 10), drain(t, s)); diff != "" {
		t.Error(diff)
	}
	emptied(t, s)
	if files := b.files(t, s); len(files) > 0 || b.folder.Bytes() != 0 {
		t.Errorf("left: %v, %d bytes", files, b.folder.Bytes())
	}
	push(t, s, "again")
	if diff := cmp.Diff([]string{"again"}, drain(t, s)); diff != "" {
		t.Error(diff)
	}
	emptied(t, s)
}

func TestAFileStaysUntilItsRecordsAreSettled(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.FileRecords = 2 })
	s := b.create(t)
	push(t, s, numbered(0, 5)...)
	first, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	drain(t, s)
	if empty, err := s.Reclaim(); empty || err != nil || len(b.files(t, s)) != 3 {
		t.Fatalf("%v %v %v", empty, err, b.files(t, s))
	}
	s.Settle(first)
	emptied(t, s)
}

func TestADeadSpoolIsAdoptedWithEverythingAnswered(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.FileRecords = 4 })
	s := b.create(t)
	push(t, s, numbered(0, 10)...)
	if _, err := b.folder.Adopt(s.Name()); !errors.Is(err, ErrAlive) {
		t.Fatalf("of a living process: %v", err)
	}
	die(t, s)
	a := b.adopt(t)
	if _, err := b.folder.Adopt(s.Name()); !errors.Is(err, ErrAlive) {
		t.Fatalf("twice: %v", err)
	}
	if err := a.Append(entry("x")); !errors.Is(err, errAdopted) {
		t.Fatalf("append to what another has written: %v", err)
	}
	if diff := cmp.Diff(numbered(0, 10), drain(t, a)); diff != "" || a.Damage() != (Damage{}) {
		t.Error(diff, a.Damage())
	}
	emptied(t, a)
	if err := a.Remove(); err != nil {
		t.Fatal(err)
	}
	if names, err := b.folder.Dead(true); len(names) > 0 || err != nil {
		t.Errorf("%v %v", names, err)
	}
	if _, err := b.folder.Adopt(s.Name()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after it was removed: %v", err)
	}
}

func TestOnlyOnesOwnPredecessorsAreListedUnlessAskedForAll(t *testing.T) {
	t.Parallel()
	b := setup(t)
	die(t, b.create(t))
	b.o.Server = "ingest/1"
	b.folder = b.open(t)
	die(t, b.create(t))
	mine, err := b.folder.Dead(false)
	if err != nil || len(mine) != 1 || mine[0].Server != "ingest_1" {
		t.Errorf("%v %v", mine, err)
	}
	if all, err := b.folder.Dead(true); err != nil || len(all) != 2 || all[0].Server != "ingest-0" {
		t.Errorf("oldest first: %v %v", all, err)
	}
}

func TestManyWritersShareAnFsyncAndNoneIsForgotten(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.FileRecords = 50 })
	s := b.create(t)
	b.disk.Hold("sync")
	const writers = 40
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for n := range 5 {
				if err := s.Append([]Entry{{Body: fmt.Appendf(nil, "%d.%d", i, 2*n)}, {Body: fmt.Appendf(nil, "%d.%d", i, 2*n+1)}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	queued := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.waiting)
	}
	for queued() < writers-1 { // one of them is in the fsync
		runtime.Gosched()
	}
	b.disk.Heal()
	all.Wait()
	next := map[string]int{}
	for _, text := range drain(t, s) {
		writer, number, _ := strings.Cut(text, ".")
		if number != fmt.Sprint(next[writer]) {
			t.Fatalf("writer %s: %s, want %d", writer, number, next[writer])
		}
		next[writer]++
	}
	if len(next) != writers || next["7"] != 10 {
		t.Errorf("%d writers, %d of one", len(next), next["7"])
	}
	if n := b.disk.Calls("sync"); n >= writers*5 {
		t.Errorf("%d fsyncs for %d calls", n, writers*5)
	}
}

func TestFullMeansRefusedUntilThereIsRoom(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.MaxBytes = 300 })
	s := b.create(t)
	push(t, s, numbered(0, 5)...)
	if err := s.Append(entry(strings.Repeat("x", 200))); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(numbered(0, 5), drain(t, s)); diff != "" {
		t.Error(diff)
	}
	emptied(t, s)
	push(t, s, strings.Repeat("x", 200))

	b = setup(t, func(o *Options) { o.MinFree = 1 << 60 })
	if err := b.create(t).Append(entry("x")); !errors.Is(err, ErrFull) {
		t.Errorf("with too little left for others: %v", err)
	}
}

func TestAFolderThatIsTakenAwayIsNoticedBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(b *bundle, s *Spool) error{
		"folder removed": func(b *bundle, s *Spool) error { return os.RemoveAll(b.folder.path(s.name)) },
		"folder renamed": func(b *bundle, s *Spool) error { return os.Rename(b.folder.path(s.name), b.folder.path(spoolName())) },
		"file removed":   func(b *bundle, s *Spool) error { return os.Remove(s.path(s.number)) },
		"lock removed":   func(b *bundle, s *Spool) error { return os.Remove(filepath.Join(b.folder.path(s.name), lockName)) },
		"lock replaced": func(b *bundle, s *Spool) error {
			path := filepath.Join(b.folder.path(s.name), lockName)
			return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			s := b.create(t)
			push(t, s, "before")
			if err := take(b, s); err != nil {
				t.Fatal(err)
			}
			if err := s.Append(entry("after")); !errors.Is(err, ErrLost) {
				t.Fatalf("%v", err)
			}
			if err := s.Append(entry("later")); !errors.Is(err, ErrLost) {
				t.Fatalf("%v", err)
			}
			push(t, b.create(t), "in a new one")
		})
	}
}

func TestARootThatCannotBeWrittenIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{FS: setup(t).disk, Root: filepath.Join(path, "spool")}); err == nil {
		t.Error("a folder below a file")
	}
}

func TestARootOfWhichFilesCannotBeMadeIsRefused(t *testing.T) {
	t.Parallel()
	for name, refused := range map[error]bool{syscall.EROFS: true, syscall.EACCES: true, syscall.ENOSPC: false, syscall.EIO: false} {
		b := setup(t) // the folders are there
		b.disk.Fail("create", "try.", 1, name, false)
		if _, err := Open(b.o); (err != nil) != refused {
			t.Errorf("%v: opened with %v", name, err)
		}
	}
}

func TestAnAdopterInTheWayOfACreatorDoesNoHarm(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const each = 20
	var all sync.WaitGroup
	made := make(chan *Spool, each)
	all.Go(func() {
		defer close(made)
		for range each {
			s, err := b.folder.Create()
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Append(entry("x")); err != nil {
				t.Errorf("a spool that was just made: %v", err)
			}
			made <- s
		}
	})
	all.Go(func() {
		for range 10 * each {
			names, err := b.folder.Dead(true)
			if err != nil {
				t.Error(err)
			}
			for _, name := range names {
				if a, err := b.folder.Adopt(name); err == nil {
					if len(a.files) > 0 {
						t.Error("adopted from a living process")
					}
					_ = a.Remove() // its creator may be making it
				}
			}
		}
	})
	for s := range made {
		t.Cleanup(func() { _ = s.Close() })
	}
	all.Wait()
}
