package outage

import (
	"syscall"
	"testing"
	"time"
)

// refusing is a guard whose database takes everything of a partition but the record that comes next.
func refusing(t *testing.T, limit time.Duration) *bundle {
	t.Helper()
	b := setup(t)
	b.guard.o.BarrierMax = limit
	b.db.set(func() { b.db.away, b.db.poison = true, "bad" })
	b.push(group("q", "p", "bad"))
	b.push(group("q", "p", "behind"))
	b.db.set(func() { b.db.away = false })
	b.guard.rise()
	b.guard.step(t.Context()) // finds out that they have to come one by one
	b.want(b.push(group("q", "p", "early")), "buffered")
	b.guard.step(t.Context()) // is refused
	return b
}

func TestPushesGoPastARecordThatIsRefusedForTooLong(t *testing.T) {
	t.Parallel()
	b := refusing(t, time.Nanosecond)
	b.want(b.push(group("q", "p", "new"), group("q", "r", "other")), "queued queued")
	b.want(b.push(group("q", "p", "newer")), "queued")
	if n, told := b.guard.Status().Counters.Passed, b.lines.count("pushes go past records"); n != 1 || told != 1 {
		t.Errorf("counted %d, told %d times:\n%s", n, told, b.lines)
	}
	b.db.set(func() { b.db.away = true })
	b.guard.fall(errAway)
	b.want(b.push(group("q", "p", "away")), "buffered")
	b.db.set(func() { b.db.away, b.db.poison = false, "" })
	b.drained()
	b.want(b.stored("q", "p"), "new newer bad behind early away") // what was spooled is in its order
	b.want(b.push(group("q", "p", "last")), "queued")
}

func TestPushesStayBehindARecordThatIsRefused(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]time.Duration{"never": 0, "not yet": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := refusing(t, limit)
			b.want(b.push(group("q", "p", "new"), group("q", "r", "other")), "buffered queued")
			b.db.set(func() { b.db.poison = "" })
			b.guard.drain.forgive()
			b.drained()
			b.want(b.stored("q", "p"), "bad behind early new")
		})
	}
}

func TestABacklogALockAndAnOutageAreNothingToGoPast(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.guard.o.BarrierMax = time.Nanosecond
	b.db.set(func() { b.db.away = true })
	b.push(group("q", "p", "1"))
	b.want(b.push(group("q", "p", "2")), "buffered")
	b.guard.rise()
	b.guard.step(t.Context()) // fails for want of a database, which is not known yet
	b.db.set(func() { b.db.away = false })
	b.guard.rise()
	b.want(b.push(group("q", "p", "3")), "buffered")
	b.drained()
	b.want(b.stored("q", "p"), "1 2 3")
}

func TestPushesGoPastASpoolThatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.db.set(func() { b.db.away = true })
	b.push(group("q", "p", "old"))
	b.kill()
	b.start()
	b.guard.o.BarrierMax = time.Nanosecond
	b.db.set(func() { b.db.away = false })
	b.disk.Fail("open", "", 1, syscall.EIO, false)
	b.want(b.push(group("q", "p", "1")), "buffered")
	b.guard.step(t.Context())
	b.want(b.push(group("q", "p", "2")), "queued")
	b.disk.Heal()
	b.drained()
	b.want(b.stored("q", "p"), "2 old 1")
	b.want(b.push(group("q", "p", "3")), "queued")
}
