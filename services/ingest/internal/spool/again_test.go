package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// again sets records of a spool aside and moves them to where they are tried again.
func (b *bundle) again(t *testing.T, records int) *Spool {
	t.Helper()
	s := b.create(t)
	push(t, s, numbered(0, records)...)
	for range records {
		item, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SetAside(item, "refused"); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range b.kept(t) {
		if err := os.Rename(filepath.Join(b.folder.asidePath(), name), filepath.Join(b.folder.againPath(), name)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestWhatIsToBeTriedAgainComesInItsOrderToOneProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.again(t, 12)
	a, err := b.folder.Again()
	if err != nil || a == nil {
		t.Fatalf("%v, %v", a, err)
	}
	if other, err := b.open(t).Again(); err != nil || other != nil {
		t.Errorf("another process has it, too: %v, %v", other, err)
	}
	var got []string
	for _, name := range a.Names {
		kept, err := a.Load(name)
		if err != nil || kept.Spool != s.name.ID || len(kept.Items) != 1 {
			t.Fatalf("%s: %+v, %v", name, kept, err)
		}
		got = append(got, string(kept.Items[0].Body))
		if err := a.Done(name); err != nil {
			t.Error(err)
		}
	}
	if want := fmt.Sprint(numbered(0, 12)); fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := a.Release(); err != nil {
		t.Error(err)
	}
	if a, err := b.folder.Again(); err != nil || a != nil {
		t.Errorf("nothing is left, yet there is %v, %v", a, err)
	}
}

func TestAFileThatIsNoRecordIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.again(t, 1)
	a, err := b.folder.Again()
	if err != nil || a == nil {
		t.Fatalf("%v, %v", a, err)
	}
	t.Cleanup(func() {
		if err := a.Release(); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(b.folder.againPath(), a.Names[0])
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := range len(whole) {
		if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		if kept, err := a.Load(a.Names[0]); !errors.Is(err, ErrNoRecords) {
			t.Errorf("of %d bytes %d: %v, %v", len(whole), size, kept, err)
		}
	}
	for bit := range 8 * len(whole) {
		flipped := append([]byte(nil), whole...)
		flipped[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, flipped, 0o600); err != nil {
			t.Fatal(err)
		}
		if kept, err := a.Load(a.Names[0]); !errors.Is(err, ErrNoRecords) {
			t.Errorf("bit %d is flipped: %v, %v", bit, kept, err)
		}
	}
	if err := a.Return(a.Names[0]); err != nil {
		t.Error(err)
	}
	if kept := strings.Join(b.kept(t), " "); kept != a.Names[0] {
		t.Errorf("set aside: %s, want %s", kept, a.Names[0])
	}
}
