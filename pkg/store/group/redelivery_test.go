package group_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
)

// delayed is a queue whose nacked messages wait a minute, with three messages in one partition.
func delayed(t *testing.T) (b *bench, sub group.Ref, p int64) {
	t.Helper()
	b = setup(t)
	p = b.push("p", "1", "2", "3")
	b.exec(`UPDATE queen.queues SET redelivery_delay_seconds = 60`)
	return b, b.subscribe("g", all), p
}

// waits checks that the partition's head waits for the rest of its minute, for that group.
func (b *bench) waits(sub group.Ref, p int64) {
	b.Helper()
	result, err := b.group.Claim(b.Context(), request(sub, p))
	if err != nil {
		b.Fatal(err)
	}
	c := result.Claims[0]
	if left := c.Until.Sub(result.Clock); c.Verdict != group.Deferred || left <= 0 || left > time.Minute {
		b.Errorf("%+v, %s left", c, c.Until.Sub(result.Clock))
	}
	if ids := b.candidates(sub); len(ids) != 0 {
		b.Errorf("candidates %v", ids)
	}
}

// elapse lets the time of all that waits pass.
func (b *bench) elapse() {
	b.Helper()
	b.exec(`UPDATE queen.cursors SET not_before = clock_timestamp() - interval '1 ms' WHERE not_before IS NOT NULL`)
}

func TestRedeliveryDelayHoldsTheHeadAndWhatIsBehindIt(t *testing.T) {
	t.Parallel()
	for name, nack := range map[string]string{"Failed": "2-", "Retry": "2~"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, sub, p := delayed(t)
			other := b.subscribe("h", all)
			lease, c := b.take(sub, 3, p)
			if r := b.ack("g", c, &lease, "1", nack, "3"); !r.LeaseReleased || r.Committed != 0 {
				t.Fatalf("%+v", r)
			}
			b.waits(sub, p)
			b.push("p", "4")
			b.waits(sub, p)
			b.take(other, 3, p) // is not concerned
			b.elapse()
			if ids := b.candidates(sub); len(ids) != 1 {
				t.Errorf("candidates %v", ids)
			}
			if _, c := b.take(sub, 9, p); c.First != 1 || c.Last != 3 {
				t.Errorf("%+v", c)
			}
		})
	}
}

// What ends a delivery without a nack, and what moves the cursor past the message, makes nobody wait.
func TestRedeliveryDelayIsForNacksAlone(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b *bench, sub group.Ref, lease uuid.UUID, c group.Claim){
		"Expiry":   func(b *bench, _ group.Ref, _ uuid.UUID, _ group.Claim) { b.expireLeases() },
		"GiveBack": func(b *bench, _ group.Ref, lease uuid.UUID, _ group.Claim) { b.release(queue.DefaultTenant, lease) },
		"Completed": func(b *bench, _ group.Ref, lease uuid.UUID, c group.Claim) {
			b.ack("g", c, &lease, "1")
		},
		"DeadLetter": func(b *bench, _ group.Ref, lease uuid.UUID, c group.Claim) { b.ack("g", c, &lease, "1!") },
		"RetriesUsedUp": func(b *bench, _ group.Ref, lease uuid.UUID, c group.Claim) {
			b.exec(`UPDATE queen.queues SET retry_limit = 0`)
			b.ack("g", c, &lease, "1-")
		},
		"WaitedFor": func(b *bench, sub group.Ref, lease uuid.UUID, c group.Claim) {
			b.ack("g", c, &lease, "1-")
			b.elapse()
			again, c := b.take(sub, 1, c.PartitionID)
			b.ack("g", c, &again, "1")
		},
		"AckedByHandWhileItWaits": func(b *bench, sub group.Ref, lease uuid.UUID, c group.Claim) {
			b.ack("g", c, &lease, "1-")
			b.waits(sub, c.PartitionID)
			b.ack("g", c, nil, "1")
		},
		"SwitchedOff": func(b *bench, _ group.Ref, lease uuid.UUID, c group.Claim) {
			b.exec(`UPDATE queen.queues SET redelivery_delay_seconds = 0`)
			b.ack("g", c, &lease, "1-")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, sub, p := delayed(t)
			lease, c := b.take(sub, 1, p)
			end(b, sub, lease, c)
			b.take(sub, 9, p)
		})
	}
}

// The delay is counted anew by each nack, and an expiry between leaves no trace of it.
func TestRedeliveryDelayBeginsWithEachNack(t *testing.T) {
	t.Parallel()
	b, sub, p := delayed(t)
	for range 3 {
		lease, c := b.take(sub, 3, p)
		b.ack("g", c, &lease, "1~")
		b.waits(sub, p)
		b.elapse()
		b.take(sub, 3, p)
		b.expireLeases()
	}
}

// A dead letter by the delivery limit is due after the delay, and frees what is behind it.
func TestRedeliveryDelayEndsWithTheHead(t *testing.T) {
	t.Parallel()
	b, sub, p := delayed(t)
	b.exec(`UPDATE queen.queues SET retry_limit = 100, delivery_limit = 2`)
	for range 2 {
		lease, c := b.take(sub, 1, p)
		b.ack("g", c, &lease, "1-")
		b.waits(sub, p)
		b.elapse()
	}
	if _, c := b.take(sub, 9, p); c.First != 1 {
		t.Errorf("%+v", c)
	}
	if letters := b.deadLetters(); len(letters) != 1 {
		t.Errorf("%q", letters)
	}
}

// A search for many groups says when the wait is over.
func TestRedeliveryDelayIsToldBySearches(t *testing.T) {
	t.Parallel()
	b, sub, p := delayed(t)
	lease, c := b.take(sub, 1, p)
	b.ack("g", c, &lease, "1-")
	found, snapshot := b.find(10, group.Search{Subscription: sub})
	if len(found[0].Candidates) != 1 || !found[0].Candidates[0].Until.After(snapshot.Clock) {
		t.Errorf("%+v at %s", found, snapshot.Clock)
	}
}
