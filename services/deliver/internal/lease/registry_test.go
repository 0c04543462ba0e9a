package lease

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
)

func keys(n int) []group.LeaseKey {
	out := make([]group.LeaseKey, n)
	for i := range out {
		out[i] = group.LeaseKey{Partition: int64(i), Subscription: 1}
	}
	return out
}

func TestRegistry_KnowsItsTenantsLeasesAlone(t *testing.T) {
	t.Parallel()
	r := NewRegistry(10)
	mine, other, lease := queue.DefaultTenant, queue.NewID(), queue.NewID()
	r.Put(mine, lease, "g", keys(3), nil, time.Now().Add(time.Hour))
	if got := r.Keys(mine, lease); len(got) != 3 {
		t.Errorf("keys %v", got)
	}
	if got := r.Keys(other, lease); got != nil {
		t.Errorf("another tenant's keys %v", got)
	}
	if got := r.Keys(mine, queue.NewID()); got != nil {
		t.Errorf("an unknown lease's keys %v", got)
	}
}

func TestRegistry_ReleasedCursorsLeaveOneByOne(t *testing.T) {
	t.Parallel()
	r := NewRegistry(10)
	lease := queue.NewID()
	r.Put(queue.DefaultTenant, lease, "g", keys(2), nil, time.Now().Add(time.Hour))
	seen := r.Keys(queue.DefaultTenant, lease)
	r.Released(lease, group.LeaseKey{Partition: 0, Subscription: 2}) // no such cursor
	r.Released(lease, keys(2)[0])
	if got := r.Keys(queue.DefaultTenant, lease); !slices.Equal(got, keys(2)[1:]) {
		t.Errorf("keys %v", got)
	}
	if !slices.Equal(seen, keys(2)) {
		t.Error("a list that was handed out has changed")
	}
	r.Released(lease, keys(2)[1])
	if leases, cursors := r.Size(); leases != 0 || cursors != 0 {
		t.Errorf("%d leases, %d cursors", leases, cursors)
	}
	r.Released(lease, keys(2)[1])
}

func TestRegistry_ExpiredLeasesMakeRoomFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry(4)
		var leases []uuid.UUID
		put := func(length time.Duration) {
			leases = append(leases, queue.NewID())
			r.Put(queue.DefaultTenant, leases[len(leases)-1], "g", keys(1), nil, time.Now().Add(length))
		}
		put(time.Second)
		put(time.Second)
		put(time.Hour)
		r.Extended(leases[1], time.Now().Add(time.Hour))
		time.Sleep(2 * time.Second)
		put(time.Hour)
		put(time.Hour)
		for i, known := range []bool{false, true, true, true, true} {
			if got := r.Keys(queue.DefaultTenant, leases[i]) != nil; got != known {
				t.Errorf("lease %d known: %t", i, got)
			}
		}
	})
}

// TestRegistry_Histories compares random histories with a plain map: an entry is complete or absent, and the bound holds.
func TestRegistry_Histories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const limit = 12
		r := NewRegistry(limit)
		model := map[uuid.UUID][]group.LeaseKey{}
		pool := make([]uuid.UUID, 6)
		for i := range pool {
			pool[i] = queue.NewID()
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			lease := rapid.SampledFrom(pool).Draw(t, "lease")
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				n := rapid.IntRange(0, limit+2).Draw(t, "cursors")
				if n > 0 && n <= limit {
					model[lease] = keys(n)
				}
				r.Put(queue.DefaultTenant, lease, "g", keys(n), nil, time.Now().Add(time.Hour))
			case 1:
				key := group.LeaseKey{Partition: int64(rapid.IntRange(0, limit).Draw(t, "partition")), Subscription: 1}
				r.Released(lease, key)
				model[lease] = slices.DeleteFunc(slices.Clone(model[lease]), func(k group.LeaseKey) bool { return k == key })
			case 2:
				r.Extended(lease, time.Now().Add(2*time.Hour))
			}
			total := 0
			for _, lease := range pool {
				got := r.Keys(queue.DefaultTenant, lease)
				total += len(got)
				if got != nil && !slices.Equal(got, model[lease]) {
					t.Fatalf("lease has %v, want %v or nothing", got, model[lease])
				}
			}
			if _, cursors := r.Size(); cursors != total || cursors > limit {
				t.Fatalf("size says %d cursors, there are %d", cursors, total)
			}
			if r.Keys(queue.DefaultTenant, lease) == nil && len(model[lease]) > 0 {
				delete(model, lease) // evicted
			}
		}
	})
}

func TestRegistry_SpansOfALease(t *testing.T) {
	t.Parallel()
	r := NewRegistry(10)
	lease, partition := uuid.New(), uuid.New()
	expires := time.Now().Add(time.Hour)
	cursors := keys(2)
	span := func(i int, messages int) Span {
		return Span{Cursor: cursors[i], Partition: uuid.UUID{byte(i)}, First: 7, Hashes: make([]uuid.UUID, messages)}
	}
	r.Put(queue.DefaultTenant, lease, "g", cursors, []Span{span(0, 20), span(1, 20)}, expires)
	if got, known := r.Span(queue.DefaultTenant, lease, "g", uuid.UUID{1}); !known || got.Cursor != cursors[1] || got.First != 7 {
		t.Errorf("%+v %v", got, known)
	}
	for name, known := range map[string]bool{
		"another tenant":    second(r.Span(uuid.New(), lease, "g", uuid.UUID{1})),
		"another group":     second(r.Span(queue.DefaultTenant, lease, "h", uuid.UUID{1})),
		"another partition": second(r.Span(queue.DefaultTenant, lease, "g", partition)),
		"another lease":     second(r.Span(queue.DefaultTenant, uuid.New(), "g", uuid.UUID{1})),
	} {
		if known {
			t.Errorf("%s has the span", name)
		}
	}

	// There is room for 50 messages: those of one more lease are forgotten, its cursors are not.
	more := uuid.New()
	r.Put(queue.DefaultTenant, more, "g", cursors[:1], []Span{span(0, 20)}, expires)
	if second(r.Span(queue.DefaultTenant, more, "g", uuid.UUID{})) || len(r.Keys(queue.DefaultTenant, more)) != 1 {
		t.Error("more is remembered than there is room for, or less than there is")
	}
	r.Released(lease, cursors[0])
	if second(r.Span(queue.DefaultTenant, lease, "g", uuid.UUID{0})) || !second(r.Span(queue.DefaultTenant, lease, "g", uuid.UUID{1})) {
		t.Error("the wrong one of two spans is left")
	}
	r.Put(queue.DefaultTenant, more, "g", cursors[:1], []Span{span(0, 20)}, expires)
	if !second(r.Span(queue.DefaultTenant, more, "g", uuid.UUID{})) {
		t.Error("what was released has left no room")
	}
	r.Released(lease, cursors[1])
	r.Released(more, cursors[0])
	if n, cursors := r.Size(); n != 0 || cursors != 0 || r.hashes != 0 {
		t.Errorf("left: %d leases, %d cursors, %d messages", n, cursors, r.hashes)
	}
}

func second(_ Span, known bool) bool { return known }
