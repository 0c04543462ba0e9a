package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/services/ingest/internal/spool/frame"
)

// recovered are the records that an adopter finds, and what it says of the damage.
func (b *bundle) recovered(t testing.TB, s *Spool) ([]string, Damage) {
	t.Helper()
	a := b.claim(t, s.name)
	texts := drain(t, a)
	damage := a.Damage()
	emptied(t, a)
	if err := a.Remove(); err != nil {
		t.Fatal(err)
	}
	return texts, damage
}

// looked reads what an adopter finds, and leaves it there.
func (b *bundle) looked(t testing.TB, s *Spool) ([]string, Damage) {
	t.Helper()
	a := b.claim(t, s.name)
	texts := drain(t, a)
	damage := a.Damage()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return texts, damage
}

// The process was killed, or the machine lost its power, while the last record was being written.
func TestATornTailCostsNothingThatWasAnswered(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.FileRecords = 3 })
	s := b.create(t)
	texts := numbered(0, 5)
	push(t, s, texts...)
	die(t, s)
	files := b.files(t, s)
	data, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	record := int(frame.Size(len(texts[0])))
	root := t.TempDir()
	for cut := range len(data) + 1 {
		c := b.copyOf(t, s, filepath.Join(root, fmt.Sprint(cut)))
		if err := os.Truncate(c.files(t, s)[1], int64(cut)); err != nil {
			t.Fatal(err)
		}
		whole := 3 + max(cut-frame.HeaderSize, 0)/record
		got, damage := c.recovered(t, s)
		if diff := cmp.Diff(texts[:whole], got); diff != "" {
			t.Fatalf("cut at %d: %s", cut, diff)
		}
		atBoundary := cut == 0 || cut >= frame.HeaderSize && (cut-frame.HeaderSize)%record == 0
		if want := (Damage{Torn: 1}); atBoundary && damage != (Damage{}) || !atBoundary && damage != want {
			t.Fatalf("cut at %d: %+v", cut, damage)
		}
		if kept := c.kept(t); len(kept) != damage.Torn {
			t.Fatalf("cut at %d: kept %v", cut, kept)
		}
	}
}

// In every other file the same is damage.
func TestATornFileThatIsNotTheLastIsDamage(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.FileRecords = 3 })
	s := b.create(t)
	texts := numbered(0, 5)
	push(t, s, texts...)
	die(t, s)
	path := b.files(t, s)[0]
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()-4); err != nil {
		t.Fatal(err)
	}
	got, damage := b.recovered(t, s)
	if diff := cmp.Diff(slices.Delete(slices.Clone(texts), 2, 3), got); diff != "" || damage != (Damage{SetAside: 1}) {
		t.Error(damage, diff)
	}
}

func TestEveryFlippedBitCostsItsRecordAndIsTold(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.FileRecords = 2 })
	s := b.create(t)
	texts := numbered(0, 5)
	push(t, s, texts...)
	die(t, s)
	record, flips := int(frame.Size(len(texts[0]))), 0
	for f, path := range b.files(t, s) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for bit := range 8 * len(data) {
			flips++
			data[bit/8] ^= 1 << (bit % 8)
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			data[bit/8] ^= 1 << (bit % 8)
			got, damage := b.looked(t, s)
			want := texts
			if bit/8 >= frame.HeaderSize {
				hit := 2*f + (bit/8-frame.HeaderSize)/record
				want = slices.Delete(slices.Clone(texts), hit, hit+1)
			}
			if !slices.Equal(got, want) || damage.SetAside+damage.Torn != 1 || damage.Missing != 0 {
				t.Fatalf("file %d bit %d: %+v, %v", f, bit, damage, got)
			}
			kept := b.kept(t)
			if len(kept) != 1 {
				t.Fatalf("file %d bit %d: kept %v", f, bit, kept)
			}
			if err := os.Remove(filepath.Join(b.folder.asidePath(), kept[0])); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if flips < 1000 {
		t.Errorf("only %d bits were flipped", flips)
	}
}

func TestFilesThatWereMixedUp(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.FileRecords = 2 })
	s := b.create(t)
	texts := numbered(0, 6)
	push(t, s, texts...)
	die(t, s)
	root := t.TempDir()
	for name, tc := range map[string]struct {
		mix  func(files []string) error
		want []string
		lost Damage
	}{
		"two swapped": {func(files []string) error {
			return errors.Join(os.Rename(files[0], files[0]+"x"), os.Rename(files[1], files[0]), os.Rename(files[0]+"x", files[1]))
		}, texts, Damage{}},
		"one doubled": {func(files []string) error {
			data, err := os.ReadFile(files[1])
			return errors.Join(err, os.WriteFile(filepath.Join(filepath.Dir(files[1]), fileName(99)), data, 0o600))
		}, texts, Damage{}},
		"one removed": {func(files []string) error { return os.Remove(files[1]) }, slices.Delete(slices.Clone(texts), 2, 4), Damage{Missing: 2}},
		"one emptied": {func(files []string) error { return os.Truncate(files[1], 0) }, slices.Delete(slices.Clone(texts), 2, 4), Damage{Missing: 2}},
		"one with zeros": {func(files []string) error { // from the middle of its first record to the middle of its second
			size := frame.Size(len(texts[0]))
			file, err := os.OpenFile(files[1], os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = file.WriteAt(make([]byte, size), frame.HeaderSize+size/2)
			return errors.Join(err, file.Close())
		}, slices.Delete(slices.Clone(texts), 2, 4), Damage{SetAside: 1}},
		"one of another": {func(files []string) error { return os.WriteFile(files[1]+"~", []byte("notes"), 0o600) }, texts, Damage{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := b.copyOf(t, s, filepath.Join(root, strings.ReplaceAll(name, " ", "-")))
			if err := tc.mix(c.files(t, s)); err != nil {
				t.Fatal(err)
			}
			a := c.claim(t, s.name)
			got := drain(t, a)
			if diff := cmp.Diff(tc.want, got); diff != "" || a.Damage() != tc.lost {
				t.Error(a.Damage(), diff)
			}
			emptied(t, a)
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAFailedWriteSealsTheFileAndTheNextOneGoesOn(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(b *bundle){
		"short write": func(b *bundle) { b.disk.FailWrite(fileSuffix, 7, syscall.EIO) },
		"fsync":       func(b *bundle) { b.disk.Fail("sync", fileSuffix, 1, syscall.EIO, true) },
		"no room":     func(b *bundle) { b.disk.Limit(9) },
		"fsync, and the cut too": func(b *bundle) {
			b.disk.Fail("sync", fileSuffix, 1, syscall.EIO, true)
			b.disk.Fail("truncate", "", 1, syscall.EIO, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			s := b.create(t)
			push(t, s, "a", "b")
			fail(b)
			if err := s.Append(entry("never stored")); err == nil {
				t.Fatal("no error")
			}
			b.disk.Heal()
			push(t, s, "c")
			if files := b.files(t, s); len(files) != 2 {
				t.Errorf("%d files", len(files))
			}
			if diff := cmp.Diff([]string{"a", "b", "c"}, drain(t, s)); diff != "" {
				t.Errorf("alive: %s", diff)
			}
			die(t, s)
			if got, damage := b.recovered(t, s); !slices.Equal(got, []string{"a", "b", "c"}) || damage.Missing > 0 {
				t.Errorf("after the process: %v %+v", got, damage)
			}
		})
	}
}

func TestAFullDiskLeavesNoLitter(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.create(t)
	for _, room := range []int64{0, 10, frame.HeaderSize, frame.HeaderSize + 5} {
		for range 20 {
			b.disk.Limit(room)
			if err := s.Append(entry("x")); !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
		}
	}
	b.disk.Heal()
	if files := b.files(t, s); len(files) > 0 || b.folder.Bytes() != 0 {
		t.Errorf("%v, %d bytes", files, b.folder.Bytes())
	}
	push(t, s, "x")
}

// A record that could not be set aside is not passed over.
func TestDamageThatCannotBeKeptWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.create(t)
	push(t, s, "a", "b", "c")
	die(t, s)
	path := b.files(t, s)[0]
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[frame.HeaderSize+23+20] ^= 1 // within the second record
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	a := b.adopt(t)
	first, err := a.Next()
	if err != nil || string(first.Body) != "a" {
		t.Fatal(first, err)
	}
	b.disk.Fail("sync", asideName, 1, syscall.ENOSPC, false)
	for range 3 {
		if item, err := a.Next(); !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(item, err)
		}
	}
	b.disk.Heal()
	last, err := a.Next()
	if err != nil || string(last.Body) != "c" || b.folder.Aside() != 1 || a.Damage() != (Damage{SetAside: 1}) {
		t.Fatal(last, err, b.folder.Aside(), a.Damage())
	}
	b.disk.Fail("create", asideName, 1, syscall.EROFS, true)
	if err := a.SetAside(last, "refused"); !errors.Is(err, syscall.EROFS) {
		t.Fatal(err)
	}
	if err := a.SetAside(last, "refused"); err != nil {
		t.Fatal(err)
	}
	last.file.pending++ // and again, as after a death in between
	if err := a.SetAside(last, "refused"); err != nil {
		t.Fatal(err)
	}
	if kept := b.kept(t); len(kept) != 2 || b.folder.Aside() != 2 || !strings.HasSuffix(kept[0]+kept[1], ".refused") && !strings.Contains(kept[0], ".refused") {
		t.Errorf("%v", kept)
	}
	a.Settle(first)
	drain(t, a)
	emptied(t, a)
	if reopened := b.open(t); reopened.Aside() != 2 {
		t.Errorf("%d after a start", reopened.Aside())
	}
}

func TestNextIsToldWhatTheDiskSays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.create(t)
	push(t, s, "a")
	b.disk.Fail("open", fileSuffix, 1, syscall.EMFILE, true)
	if _, err := s.Next(); !errors.Is(err, syscall.EMFILE) || errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a"}, drain(t, s)); diff != "" {
		t.Error(diff)
	}
}
