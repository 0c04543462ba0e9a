package outage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/seal"
)

// names are the files of a folder below the root, its lock aside.
func (b *bundle) names(folder string) (names []string) {
	b.Helper()
	entries, err := os.ReadDir(filepath.Join(b.root, folder))
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "lock" {
			names = append(names, e.Name())
		}
	}
	return names
}

// wish moves everything that was set aside to where it is tried again, as an operator does.
func (b *bundle) wish() {
	b.Helper()
	for _, name := range b.names("aside") {
		if err := os.Rename(filepath.Join(b.root, "aside", name), filepath.Join(b.root, "retry", name)); err != nil {
			b.Fatal(err)
		}
	}
}

// look has the guard look now for what is to be tried again, and be done with it.
func (b *bundle) look() {
	b.Helper()
	b.guard.drain.looked = time.Time{}
	b.guard.drain.asked = time.Time{}
	for b.guard.step(b.Context()) == 0 {
	}
}

// spoiled is a guard that has set records aside: one that was refused, one of a deleted queue, and one that must be sealed.
func spoiled(t *testing.T) *bundle {
	t.Helper()
	b := setup(t)
	b.guard.drain.pause.Max = time.Millisecond
	b.db.set(func() { b.db.away = true })
	b.push(group("q", "p", "1"), group("gone", "p", "g"), group("secret", "p", "s"))
	b.push(group("q", "p", "bad"))
	b.push(group("q", "p", "2"))
	b.db.set(func() {
		b.db.away, b.db.poison, b.db.deleted["gone"], b.db.sealed["secret"] = false, "bad", true, true
	})
	b.drained()
	if kept := b.names("aside"); len(kept) != 3 || b.guard.o.Folder.Aside() != 3 {
		t.Fatalf("set aside: %v", kept)
	}
	return b
}

func TestWhatWasSetAsideIsReplayedOnceSomebodyAsksForIt(t *testing.T) {
	t.Parallel()
	b := spoiled(t)
	b.look()
	b.want(b.stored("q", "p"), "1 2")
	b.db.set(func() { b.db.poison, b.db.deleted["gone"], b.db.sealed["secret"] = "", false, false })
	b.wish()
	b.look()
	// Its spool is long beyond the record of "bad".
	b.want(b.stored("q", "p")+"; "+b.stored("gone", "p")+"; "+b.stored("secret", "p"), "1 2 bad; g; s")
	if left, n := append(b.names("retry"), b.names("aside")...), b.guard.o.Folder.Aside(); len(left) > 0 || n != 0 {
		t.Errorf("left: %v, counted: %d", left, n)
	}
	if n := b.lines.count("a record that was set aside is replayed"); n != 3 {
		t.Errorf("%d lines:\n%s", n, b.lines)
	}
}

func TestWhatIsRefusedAgainGoesBackAndIsTold(t *testing.T) {
	t.Parallel()
	b := spoiled(t)
	b.db.set(func() { b.db.deleted["gone"] = false })
	junk := filepath.Join(b.root, "retry", "no-record.damaged")
	if err := os.WriteFile(junk, []byte("flipped bits"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.wish()
	b.look()
	b.want(b.stored("q", "p")+"; "+b.stored("gone", "p")+"; "+b.stored("secret", "p"), "1 2; g; ")
	if back := b.names("aside"); len(back) != 3 || len(b.names("retry")) > 0 {
		t.Errorf("back: %v, left: %v", back, b.names("retry"))
	}
	for _, why := range []string{"it is poison", "there is no key", "no whole record"} {
		if b.lines.count(why) == 0 {
			t.Errorf("no line says %q:\n%s", why, b.lines)
		}
	}
	b.guard.drain.looked = time.Time{}
	b.guard.step(t.Context())
	if n := b.guard.o.Folder.Aside(); n != 3 {
		t.Errorf("%d counted", n)
	}
}

// The file outlives its replay, be it by a death; the message is consumed, and out of the window.
func TestWhatWasTriedAgainIsNotReplayedTwice(t *testing.T) {
	t.Parallel()
	b := spoiled(t)
	b.db.set(func() { b.db.poison, b.db.deleted["gone"], b.db.sealed["secret"] = "", false, false })
	b.disk.Fail("remove", "retry", 1, syscall.EIO, false)
	b.wish()
	b.look()
	b.look()
	b.want(b.stored("gone", "p")+"; "+b.stored("secret", "p"), "g; ") // what comes later waits for what cannot be removed
	b.db.set(func() { clear(b.db.stored); b.db.window0 = true })
	b.disk.Heal()
	b.kill()
	b.start()
	b.look()
	b.want(b.stored("gone", "p")+"; "+b.stored("q", "p")+"; "+b.stored("secret", "p"), "; bad; s")
	if len(b.names("retry")) > 0 {
		t.Errorf("left: %v", b.names("retry"))
	}
}

// The attempt had committed the messages, and the record could not be read at its replay.
func TestATagIsLookedForWhenARecordIsTriedAgain(t *testing.T) {
	t.Parallel()
	keys, err := seal.NewKeys(strings.Repeat("a1", 32))
	if err != nil {
		t.Fatal(err)
	}
	b := setup(t, func(b *bundle) { b.keys = keys })
	b.db.set(func() {
		b.db.commits, b.db.window0 = true, true
		b.db.fails = func(appendlog.Key) error { return &queue.Error{Kind: queue.KindUnknown, Message: "?"} }
	})
	b.want(b.push(group("q", "p", "1")), "buffered")
	b.db.set(func() { b.db.fails = func(appendlog.Key) error { return nil } })
	b.kill()
	b.keys = nil
	b.start()
	b.drained()
	b.want(fmt.Sprint(len(b.names("aside"))), "1")
	b.kill()
	b.keys = keys
	b.start()
	b.wish()
	b.look()
	b.want(b.stored("q", "p"), "1")
	b.want(fmt.Sprint(len(b.names("aside"))+len(b.names("retry"))), "0")
}

func TestWhatIsToBeTriedAgainWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	b := spoiled(t)
	b.db.set(func() { b.db.poison, b.db.deleted["gone"], b.db.sealed["secret"] = "", false, false })
	b.wish()
	b.off = true
	b.look()
	b.off = false
	b.db.set(func() { b.db.away = true })
	b.look()
	b.guard.rise() // a probe got through, the replay does not
	b.look()
	if n := len(b.names("retry")); n != 3 {
		t.Errorf("%d wait", n)
	}
	b.db.set(func() { b.db.away = false })
	b.guard.rise()
	b.look()
	b.want(b.stored("q", "p"), "1 2 bad")
}
