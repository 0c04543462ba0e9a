package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"queen.internal/pkg/store/group"
)

// database is a clock that the test moves, read over a link that takes a while.
type database struct {
	offset time.Duration
	clock  *Clock
	leaps  []Leap
}

func newDatabase() *database {
	d := &database{offset: 42 * time.Hour}
	d.clock = NewClock(func(l Leap) { d.leaps = append(d.leaps, Leap{By: l.By.Round(time.Second), Accepted: l.Accepted}) })
	return d
}

func (d *database) now() time.Time { return time.Now().Add(d.offset) }

// read takes a reading whose answer takes before the clock is read, and after.
func (d *database) read(before, after time.Duration) {
	sent := time.Now()
	time.Sleep(before)
	reading := d.now()
	time.Sleep(after)
	d.clock.Observe(reading, sent, time.Now())
}

// ahead is how far the cap is before the clock.
func (d *database) ahead() time.Duration { return d.clock.Bounds().Cap.Sub(d.now()) }

func TestClock_NoReadingNoCap(t *testing.T) {
	t.Parallel()
	c := NewClock(func(Leap) { t.Error("a leap without a reading") })
	c.Observe(time.Time{}, time.Now(), time.Now())
	if got := c.Bounds(); got != (group.Bounds{}) {
		t.Errorf("cap %v", got)
	}
}

func TestClock_CapGoesOnWithOwnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		d.read(0, 0)
		time.Sleep(time.Hour)
		if got := d.ahead(); got != tolerance+1800*time.Millisecond { // and what an hour's drift can be
			t.Errorf("after an hour the cap is %v ahead", got)
		}
	})
}

func TestClock_SlowAnswersAreNoLeaps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		for _, delay := range [][2]time.Duration{{3 * time.Second, 0}, {0, 0}, {0, 4 * time.Second}, {2 * time.Second, 2 * time.Second}, {time.Millisecond, 0}} {
			d.read(delay[0], delay[1])
		}
		if len(d.leaps) > 0 {
			t.Errorf("leaps: %v", d.leaps)
		}
		if got := d.ahead(); got < tolerance || got > tolerance+time.Millisecond {
			t.Errorf("the cap is %v ahead", got)
		}
	})
}

func TestClock_AnswersMayOvertakeEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		early := time.Now()
		reading := d.now()
		time.Sleep(10 * time.Second)
		d.read(0, 0)
		d.clock.Observe(reading, early, early.Add(time.Millisecond)) // its goroutine slept
		if len(d.leaps) > 0 || d.ahead() != tolerance {
			t.Errorf("ahead %v, leaps %v", d.ahead(), d.leaps)
		}
	})
}

func TestClock_LeapForwardIsKeptOutUntilTheLongestLeaseHasPassed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		d.read(0, 0)
		d.clock.Granted(60 * time.Second)
		d.clock.Granted(10 * time.Second)
		before := d.clock.Bounds().Cap
		d.offset += time.Hour
		d.read(0, 0)
		for range 59 {
			time.Sleep(time.Second)
			d.read(0, 0)
		}
		if got := d.clock.Bounds().Cap.Sub(before).Truncate(time.Second); got != 59*time.Second {
			t.Errorf("in 59 s the cap went on by %v", got)
		}
		if diff := cmp.Diff([]Leap{{By: time.Hour}}, d.leaps); diff != "" {
			t.Error(diff)
		}
		time.Sleep(time.Second)
		d.read(0, 0)
		if diff := cmp.Diff([]Leap{{By: time.Hour}, {By: time.Hour, Accepted: true}}, d.leaps); diff != "" {
			t.Error(diff)
		}
		if got := d.ahead(); got != tolerance {
			t.Errorf("the cap is %v ahead", got)
		}
	})
}

func TestClock_LeapBackIsReportedAndAcceptedLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		d.read(0, 0)
		d.offset -= time.Hour
		for range 2 {
			d.read(0, 0)
			time.Sleep(defaultHold)
		}
		d.read(0, 0)
		if diff := cmp.Diff([]Leap{{By: -time.Hour}, {By: -time.Hour, Accepted: true}}, d.leaps); diff != "" {
			t.Error(diff)
		}
	})
}

// behind is how far the floor is behind the clock.
func (d *database) behind() time.Duration { return d.now().Sub(d.clock.Bounds().Floor) }

func TestClock_FloorGoesOnWhenTheClockFalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		d.read(0, 0)
		d.clock.Granted(time.Minute)
		time.Sleep(time.Minute)
		d.read(0, 0)
		if got := d.behind(); got != 0 {
			t.Errorf("the floor is %v behind", got)
		}
		d.offset -= time.Hour
		d.read(0, 0)
		time.Sleep(59 * time.Second)
		d.read(0, 0)
		if got := d.behind().Round(time.Minute); got != -time.Hour {
			t.Errorf("a minute after the fall the floor is %v behind", got)
		}
		time.Sleep(time.Second)
		d.read(0, 0)
		if got := d.behind(); got != 0 || !d.leaps[len(d.leaps)-1].Accepted {
			t.Errorf("after it has been believed the floor is %v behind; leaps %v", got, d.leaps)
		}
	})
}

func TestClock_SettledWhenALeaseHasPassedWithoutALeap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		settles := func(since string) {
			t.Helper()
			d.read(0, 0)
			time.Sleep(time.Minute - time.Nanosecond)
			if d.clock.Bounds().Settled {
				t.Errorf("settled too early after %s", since)
			}
			time.Sleep(time.Nanosecond)
			if !d.clock.Bounds().Settled {
				t.Errorf("not settled after %s", since)
			}
		}
		d.clock.Granted(time.Minute)
		settles("the first reading")
		d.offset += time.Hour
		d.read(0, 0)
		if d.clock.Bounds().Settled {
			t.Error("settled in a leap")
		}
		d.offset -= time.Hour
		settles("a return")
		d.offset -= time.Hour
		d.read(0, 0)
		time.Sleep(time.Minute)
		settles("what was believed")
	})
}

func TestClock_ReturnToTheOldClockEndsTheEpisode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		d.read(0, 0)
		for range 3 { // each leap is another one: none may use up the wait of the one before
			d.offset += time.Hour
			d.read(0, 0)
			time.Sleep(defaultHold - time.Second)
			d.offset -= time.Hour
			d.read(0, 0)
		}
		if diff := cmp.Diff([]Leap{{By: time.Hour}, {By: time.Hour}, {By: time.Hour}}, d.leaps); diff != "" {
			t.Error(diff)
		}
		if got := d.ahead(); got != tolerance {
			t.Errorf("the cap is %v ahead", got)
		}
	})
}

func TestClock_SecondLeapBeginsTheWaitAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		d.read(0, 0)
		d.offset += time.Hour
		d.read(0, 0)
		time.Sleep(defaultHold - time.Second)
		d.offset += time.Hour
		d.read(0, 0)
		time.Sleep(defaultHold - time.Second)
		d.read(0, 0)
		if len(d.leaps) != 2 || d.leaps[1].Accepted {
			t.Errorf("leaps: %v", d.leaps)
		}
		time.Sleep(time.Second)
		d.read(0, 0)
		if len(d.leaps) != 3 || !d.leaps[2].Accepted {
			t.Errorf("leaps: %v", d.leaps)
		}
	})
}

func TestClock_LeaseOfYearsDoesNotHoldForYears(t *testing.T) {
	t.Parallel()
	c := NewClock(func(Leap) {})
	c.Granted(10 * 365 * 24 * time.Hour)
	if got := c.hold(); got != maxHold {
		t.Errorf("hold %v", got)
	}
}

// TestClock_HonestClocksAreNeverHeld lets a clock drift and answers be late, at random: no reading may look like a leap, the
// cap is never behind the clock, which would make expired leases look live, and the floor is never ahead of it, which would
// end live ones.
func TestClock_HonestClocksAreNeverHeld(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := newDatabase()
		own := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		ms := func(most int, label string) time.Duration {
			return time.Duration(rapid.IntRange(0, most).Draw(t, label)) * time.Millisecond
		}
		drift := rapid.IntRange(-500, 500).Draw(t, "ppm")
		base := own.Add(d.offset)
		clock := func(at time.Time) time.Time {
			passed := at.Sub(own)
			return base.Add(passed + passed*time.Duration(drift)/1_000_000)
		}
		at := own
		for range rapid.IntRange(1, 40).Draw(t, "readings") {
			at = at.Add(ms(600_000, "pause"))
			read := at.Add(ms(3000, "before"))
			received := read.Add(ms(3000, "after"))
			d.clock.Observe(clock(read), at, received)
			at = received
			if len(d.leaps) > 0 {
				t.Fatalf("leaps: %v", d.leaps)
			}
			p := d.clock.trusted.at(at)
			if slack := p.high.Add(tolerance).Sub(clock(at)); slack < 0 {
				t.Fatalf("the cap is %v behind the clock", -slack)
			}
			if slack := clock(at).Sub(p.low); slack < 0 {
				t.Fatalf("the floor is %v ahead of the clock", -slack)
			}
		}
	})
}
