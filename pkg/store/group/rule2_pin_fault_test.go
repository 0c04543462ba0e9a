package group_test

import (
	"testing"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/testkit"
)

// A group's first contact with a partition that is missing meets its first contact with the queue.
func TestRule2APinAndARegistrationOfOneGroupDoNotDeadlock(t *testing.T) {
	t.Parallel()
	b, slow := two(t)
	b.push("p", "1")
	release := testkit.Brake(t, b.pool, "slow", "AFTER INSERT", "queen.subscriptions")
	pinned := make(chan error, 1)
	go func() {
		_, _, err := slow.group.Pin(t.Context(), queue.DefaultTenant, "q", "missing", "g", fresh)
		pinned <- err
	}()
	testkit.AwaitBlocked(t, b.pool, "slow")
	registering := b.bystander(b.config(), "registrar").subscribing(fresh)
	testkit.AwaitBlocked(t, b.pool, "registrar")
	release()
	if err := <-pinned; err != nil {
		t.Error(err)
	}
	<-registering // reports its own error
}
