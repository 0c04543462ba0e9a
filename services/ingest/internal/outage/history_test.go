package outage

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
)

// Outages, push maintenance, lost answers, deaths and replays in any order, without deduplication: what was answered queued or buffered is
// stored once, and in each partition in the order of the answers.
func TestHistoriesOfOutagesAndDeaths(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		b := setup(t)
		b.db.window0 = true
		n, answered := 0, map[string][]string{}
		partitions := []string{"p", "r"}
		steps := func(count int) {
			for range count {
				b.guard.drain.asked = time.Time{}
				for _, tr := range b.guard.drain.troubled {
					tr.until = time.Time{}
				}
				b.guard.step(t.Context())
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"push": func(rt *rapid.T) {
				var groups []appendlog.Group
				for _, p := range partitions[:rapid.IntRange(1, 2).Draw(rt, "partitions")] {
					var ids []string
					for range rapid.IntRange(1, 3).Draw(rt, "messages") {
						n++
						ids = append(ids, fmt.Sprint(n))
					}
					groups = append(groups, group("q", p, ids...))
				}
				for i, r := range b.guard.Append(t.Context(), groups) {
					if r.Err != nil {
						continue // told: stored nowhere
					}
					for _, m := range groups[i].Messages {
						answered[groups[i].Key.Partition] = append(answered[groups[i].Key.Partition], m.TransactionID)
					}
				}
			},
			"away": func(*rapid.T) { b.db.set(func() { b.db.away = true }) },
			"back": func(*rapid.T) {
				b.db.set(func() { b.db.away = false; b.db.fails = func(appendlog.Key) error { return nil } })
			},
			"commits are not confirmed": func(rt *rapid.T) {
				committed := rapid.Bool().Draw(rt, "committed")
				b.db.set(func() {
					b.db.commits = committed
					b.db.fails = func(appendlog.Key) error { return &queue.Error{Kind: queue.KindUnknown, Message: "?"} }
				})
			},
			"push maintenance": func(*rapid.T) { b.off = !b.off },
			"drain":            func(rt *rapid.T) { steps(rapid.IntRange(1, 6).Draw(rt, "steps")) },
			"die": func(*rapid.T) {
				b.kill()
				b.start()
			},
			"stop and start": func(*rapid.T) {
				b.stop()
				b.start()
			},
		})
		b.off = false
		b.db.set(func() { b.db.away = false; b.db.fails = func(appendlog.Key) error { return nil } })
		for range 200 {
			if steps(1); b.guard.Status().Records == 0 {
				break
			}
		}
		steps(5) // empty spools go one by one
		for _, p := range partitions {
			b.db.mu.Lock()
			got := slices.Clone(b.db.stored[keyOf("q", p)])
			b.db.mu.Unlock()
			if !slices.Equal(got, answered[p]) {
				rt.Fatalf("%s: stored %v, answered %v\n%s", p, got, answered[p], strings.Join(b.lines.text, "\n"))
			}
		}
		if s := b.guard.Status(); s.Pending != 0 || s.Spools != 1 {
			rt.Fatalf("%+v", s)
		}
	})
}
