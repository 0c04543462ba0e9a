package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"queen.internal/compose/demo/internal/ledger"
)

// tick is a clock that moves a second at every look.
func tick() func() time.Time {
	now := time.Unix(0, 0)
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}

// pushed is a ledger with n stored messages in partition "p".
func pushed(n int, groups ...string) *ledger.Ledger {
	l := ledger.New(tick(), groups...)
	for range n {
		l.Stored("p", l.Send("p"))
	}
	return l
}

func group(l *ledger.Ledger, i int) ledger.Group {
	g := l.Totals().Groups[i]
	g.LastAck, g.FirstAgain = time.Time{}, time.Time{}
	return g
}

func TestLedgerCounts(t *testing.T) {
	t.Parallel()
	deliver := func(l *ledger.Ledger, sequences ...int) {
		for _, s := range sequences {
			l.Delivered("g", "p", s, true)
		}
	}
	ack := func(l *ledger.Ledger, sequences ...int) {
		for _, s := range sequences {
			l.Acked("g", "p", s)
		}
	}
	for name, test := range map[string]struct {
		happens func(*ledger.Ledger)
		want    ledger.Group
	}{
		"InOrder": {
			func(l *ledger.Ledger) { deliver(l, 0, 1, 2); ack(l, 0, 1, 2) }, ledger.Group{Delivered: 3, Acked: 3},
		},
		"RedeliveryKeepsOrder": {
			func(l *ledger.Ledger) { deliver(l, 0, 1, 0, 1, 2); ack(l, 0, 1, 2, 2) },
			ledger.Group{Delivered: 3, Redelivered: 2, Acked: 3},
		},
		"LaterFirst": {
			func(l *ledger.Ledger) { deliver(l, 0, 2, 1); ack(l, 0, 1, 2) }, ledger.Group{Delivered: 3, OutOfOrder: 1, Acked: 3},
		},
		"Skipped":  {func(l *ledger.Ledger) { deliver(l, 0, 2); ack(l, 0, 2) }, ledger.Group{Delivered: 2, Acked: 2, Missing: 1}},
		"NotAcked": {func(l *ledger.Ledger) { deliver(l, 0, 1, 2) }, ledger.Group{Delivered: 3, Missing: 3}},
		"NeverSent": {
			func(l *ledger.Ledger) {
				deliver(l, 3, -1)
				l.Delivered("g", "elsewhere", 0, true)
				ack(l, 3)
			},
			ledger.Group{Unknown: 3, Missing: 3},
		},
		"Altered": {
			func(l *ledger.Ledger) { l.Delivered("g", "p", 0, false) }, ledger.Group{Delivered: 1, Altered: 1, Missing: 3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := pushed(3, "g")
			test.happens(l)
			test.want.Name = "g"
			if diff := cmp.Diff(test.want, group(l, 0)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLedgerKeepsPartitionsAndGroupsApart(t *testing.T) {
	t.Parallel()
	l := ledger.New(tick(), "g", "h")
	for _, p := range []string{"p", "q", "p", "q"} {
		l.Stored(p, l.Send(p))
	}
	l.Delivered("g", "p", 1, true)
	l.Delivered("g", "q", 0, true)
	l.Delivered("h", "p", 0, true)
	l.Delivered("h", "p", 1, true)
	l.Acked("h", "p", 1)
	totals := l.Totals()
	if totals.Messages != 4 || totals.Partitions != 2 {
		t.Errorf("%d messages in %d partitions, want 4 in 2", totals.Messages, totals.Partitions)
	}
	want := []ledger.Group{{Name: "g", Delivered: 2, Missing: 4}, {Name: "h", Delivered: 2, Acked: 1, Missing: 3}}
	if diff := cmp.Diff(want, []ledger.Group{group(l, 0), group(l, 1)}); diff != "" {
		t.Error(diff)
	}
	if n := totals.Faults(true); n != 7 {
		t.Errorf("%d faults with the lost ones, want 7", n)
	}
	if n := totals.Faults(false); n != 0 {
		t.Errorf("%d faults without the lost ones, want 0", n)
	}
}

func TestLedgerIsDone(t *testing.T) {
	t.Parallel()
	done := func(l *ledger.Ledger) bool {
		select {
		case <-l.Done():
			return true
		default:
			return false
		}
	}

	t.Run("WhenClosedAndAcknowledged", func(t *testing.T) {
		t.Parallel()
		l := pushed(1, "g", "h")
		l.Acked("g", "p", 0)
		l.Close()
		if done(l) {
			t.Fatal("done although h owes a message")
		}
		l.Acked("h", "p", 0)
		if !done(l) {
			t.Fatal("not done")
		}
	})

	t.Run("NotBeforeItIsClosed", func(t *testing.T) {
		t.Parallel()
		l := pushed(1, "g")
		l.Acked("g", "p", 0)
		if done(l) {
			t.Fatal("done although more may be pushed")
		}
		l.Close()
		if !done(l) {
			t.Fatal("not done")
		}
	})

	t.Run("WhenTheConfirmationComesAfterTheAck", func(t *testing.T) {
		t.Parallel()
		l := ledger.New(tick(), "g")
		sequence := l.Send("p")
		l.Delivered("g", "p", sequence, true)
		l.Acked("g", "p", sequence)
		l.Stored("p", sequence)
		l.Close()
		if !done(l) || group(l, 0).Missing != 0 {
			t.Errorf("not done, %+v", group(l, 0))
		}
	})

	t.Run("WhenAllWereThereAlready", func(t *testing.T) {
		t.Parallel()
		l := ledger.New(tick(), "g")
		l.Send("p")
		l.Already()
		l.Close()
		if !done(l) || l.Totals().Already != 1 || l.Totals().Messages != 0 {
			t.Errorf("not done, %+v", l.Totals())
		}
	})
}

// Whatever is delivered in whatever order, the counts agree with a plain reading of the history.
func TestLedgerAgreesWithAPlainReading(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(t, "messages")
		l := pushed(n, "g")
		history := rapid.SliceOf(rapid.IntRange(0, n-1)).Draw(t, "deliveries")
		want := ledger.Group{Name: "g", Missing: n}
		seen := map[int]bool{}
		top := -1
		for i, s := range history {
			l.Delivered("g", "p", s, true)
			switch {
			case seen[s]:
				want.Redelivered++
			case s < top:
				want.OutOfOrder++
				want.Delivered++
			default:
				want.Delivered++
			}
			if !seen[s] && i%2 == 0 {
				l.Acked("g", "p", s)
				want.Acked++
				want.Missing--
			}
			seen[s] = true
			top = max(top, s)
		}
		if diff := cmp.Diff(want, group(l, 0)); diff != "" {
			t.Error(diff)
		}
	})
}
