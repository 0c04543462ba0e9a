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
	r.Put(mine, lease, keys(3), time.Now().Add(time.Hour))
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
	r.Put(queue.DefaultTenant, lease, keys(2), time.Now().Add(time.Hour))
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
			r.Put(queue.DefaultTenant, leases[len(leases)-1], keys(1), time.Now().Add(length))
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
				r.Put(queue.DefaultTenant, lease, keys(n), time.Now().Add(time.Hour))
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
