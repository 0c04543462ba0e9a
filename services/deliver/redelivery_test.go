package main

import (
	"net/http"
	"testing"
)

// The end of the wait is known from the nack on: the backstop looks once an hour here.
func TestRedeliveryDelay_ParkedPollsGetTheHeadWhenItIsOver(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"Queue":     "/queue/q?consumerGroup=g&wait=true&timeout=600000&batch=9",
		"Partition": "/queue/q/partition/p?consumerGroup=g&wait=true&timeout=600000&batch=9",
		"Namespace": "?namespace=q&consumerGroup=g&wait=true&timeout=600000&batch=9",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.process = start(t, b.database.Config, func(s *settings) { s.WaitInitial, s.WaitMax = 3_600_000, 3_600_000 })
			b.push("q", "p", "a", "b")
			b.exec(`UPDATE queen.queues SET redelivery_delay_seconds = 2`)
			got := b.mustPop(http.StatusOK, "/queue/q?consumerGroup=g&subscriptionMode=all&batch=2")
			b.mustAck("g", got.items("failed")[:1]...)
			answer := b.later(path)
			if got := answer(); got.ids() != "a b" || got.Messages[0].DeliveryAttempt != 2 {
				t.Errorf("%d %s", got.Status, got.Raw)
			}
		})
	}
}

// Until then a pop finds what other partitions have, and the search of a deliver that knows nothing leaves the head out.
func TestRedeliveryDelay_OtherPartitionsAndGroupsGoOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a", "b")
	b.exec(`UPDATE queen.queues SET redelivery_delay_seconds = 86400`)
	got := b.mustPop(http.StatusOK, "/queue/q?consumerGroup=g&subscriptionMode=all&batch=2")
	b.mustAck("g", got.items("retry")...)
	second := start(t, b.database.Config, func(*settings) {})
	for i, p := range []*process{b.process, second} {
		b.push("q", "other", []string{"c", "d"}[i])
		answer, err := p.pop("/queue/q?consumerGroup=g&batch=9&partitions=9&autoAck=true")
		if err != nil || answer.ids() != []string{"c", "d"}[i] {
			t.Errorf("beside it: %s (%v)", answer.Raw, err)
		}
		if answer, err := p.pop("/queue/q/partition/p?consumerGroup=g&batch=9"); err != nil || answer.Status != http.StatusNoContent {
			t.Errorf("the partition itself: %d %s (%v)", answer.Status, answer.Raw, err)
		}
	}
	if got := b.mustPop(http.StatusOK, "/queue/q?consumerGroup=h&subscriptionMode=all&batch=2"); got.ids() != "a b" {
		t.Errorf("the other group: %s", got.Raw)
	}
}
