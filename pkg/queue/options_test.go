package queue_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"queen.internal/pkg/queue"
)

// Settling is done once and for all: whatever passes is within the bounds, stays as it is when it is settled again, and
// nothing appears that nobody spoke of.
func TestSettledOptionsAreWithinTheirBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string) *int32 { return rapid.Ptr(rapid.Int32(), true).Draw(t, name) }
		o := queue.Options{
			MinPopWaitMillis: number("wait"), DedupWindowSeconds: number("window"), DeliveryLimit: number("limit"),
			RetentionSinkHoldMaxSeconds: number("hold"), LeaseSeconds: number("lease"),
			RedeliveryDelaySeconds: number("delay"),
		}
		given := o
		if err := o.Settle(); err != nil {
			limit, hold, delay := given.DeliveryLimit, given.RetentionSinkHoldMaxSeconds, given.RedeliveryDelaySeconds
			if queue.KindOf(err) != queue.KindInvalid || (limit == nil || *limit == 0 || *limit >= 2) && (hold == nil || *hold >= 60 && *hold <= 31_536_000) &&
				(delay == nil || *delay >= 0 && *delay <= 86_400) {
				t.Fatalf("refused: %v", err)
			}
			return
		}
		if n := o.MinPopWaitMillis; n != nil && (*n < 0 || *n > 60_000) || (n == nil) != (given.MinPopWaitMillis == nil) {
			t.Fatalf("wait of %v", n)
		}
		if n := o.DedupWindowSeconds; n != nil && *n < 0 || (n == nil) != (given.DedupWindowSeconds == nil) {
			t.Fatalf("window of %v", n)
		}
		if n := o.DeliveryLimit; n != nil && (*n < 0 || *n == 1) {
			t.Fatalf("limit of %v", *n)
		}
		if n := o.RedeliveryDelaySeconds; n != nil && (*n < 0 || *n > 86_400) {
			t.Fatalf("delay of %v", *n)
		}
		if o.LeaseSeconds != given.LeaseSeconds {
			t.Fatal("the lease was touched")
		}
		again := o
		if err := again.Settle(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(o, again); diff != "" {
			t.Fatal(diff)
		}
	})
}
