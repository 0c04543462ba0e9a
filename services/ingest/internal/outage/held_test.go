package outage

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"queen.internal/pkg/appendlog"
)

func TestWhilePushesAreHeldTheDatabaseIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.want(b.push(group("q", "p", "1")), "queued")
	b.off = true
	if !b.guard.Away() || b.guard.Down() {
		t.Error("it is not told apart from an outage")
	}
	for n := range 7 {
		b.want(b.push(group("q", "p", fmt.Sprint("held", n)), group("q", "other", fmt.Sprint(n))), "buffered buffered")
		b.guard.step(t.Context())
	}
	b.db.set(func() {
		if b.db.pings > 0 || b.db.replays > 0 {
			t.Errorf("%d pings, %d replays", b.db.pings, b.db.replays)
		}
	})
	b.want(b.stored("q", "p"), "1")
	if files, bytes := b.guard.Files(); files < 2 || bytes == 0 {
		t.Errorf("%d files of %d bytes", files, bytes)
	}
	b.off = false
	b.want(b.push(group("q", "p", "after")), "buffered") // behind those that wait
	b.drained()
	b.want(b.push(group("q", "p", "direct")), "queued")
	b.want(b.stored("q", "p"), "1 held0 held1 held2 held3 held4 held5 held6 after direct")
	if files, bytes := b.guard.Files(); files != 0 || bytes != 0 {
		t.Errorf("drained, with %d files of %d bytes", files, bytes)
	}
}

// A process that begins while pushes are held leaves what it finds where it is.
func TestHeldPushesStayThroughARestart(t *testing.T) {
	t.Parallel()
	b := setup(t, func(b *bundle) { b.off = true })
	b.want(b.push(group("q", "p", "1", "2")), "buffered buffered")
	b.kill()
	b.start()
	for range 10 {
		b.guard.step(t.Context())
	}
	if s := b.guard.Status(); s.Pending != 2 || b.stored("q", "p") != "" {
		t.Errorf("%+v, stored %q", s, b.stored("q", "p"))
	}
	b.off = false
	b.drained()
	b.want(b.stored("q", "p"), "1 2")
}

func TestHeldPushesThatCannotBeSpooled(t *testing.T) {
	t.Parallel()
	b := setup(t, func(b *bundle) { b.off, b.max, b.none["none"] = true, 1, true })
	for name, why := range map[string]string{"q": "push maintenance is on, and the spool is full", "none": `push maintenance is on, and queue "none" is not spooled`} {
		r := b.guard.Append(t.Context(), []appendlog.Group{group(name, "p", "1")})[0]
		if !errors.Is(r.Err, ErrMaintenance) || errors.Is(r.Err, ErrNotSpooled) != (name == "q") || !strings.Contains(r.Err.Error(), why) {
			t.Errorf("%s: %v", name, r.Err)
		}
	}
	b.want(b.stored("q", "p"), "")
}
