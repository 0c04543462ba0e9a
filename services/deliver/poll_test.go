package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"

	"queen.internal/pkg/pg"
)

func TestLongPoll_AnswersAPushThatComesLater(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("known", "p", "0")
	answers := map[string]func() popped{
		"queue":     b.later("/queue/q?wait=true&timeout=60000&consumerGroup=a"),
		"partition": b.later("/queue/q/partition/p?wait=true&timeout=60000&consumerGroup=b&subscriptionMode=all"),
		"new queue": b.later("?namespace=q&wait=true&timeout=60000&consumerGroup=c&subscriptionMode=all"),
	}
	b.parked(len(answers))
	b.push("q", "p", "a")
	for name, answer := range answers {
		got := answer()
		if got.ids() != "a" {
			t.Errorf("%s answers %d %s", name, got.Status, got.Raw)
		}
	}
	b.parked(0)
}

func TestLongPoll_OfANewGroupGetsWhatCreatesItsPartition(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("known", "p", "0")
	for name, tc := range map[string]struct{ path, queue, partition string }{
		"of a missing queue":                {"/queue/come/partition/p?consumerGroup=g", "come", "p"},
		"of a missing partition":            {"/queue/known/partition/come?consumerGroup=g", "known", "come"},
		"of queues with a namespace":        {"?namespace=spaced&consumerGroup=g", "spaced.x", "p"},
		"of any partition, but a new queue": {"/queue/whole?consumerGroup=g", "whole", "p"},
	} {
		answer := b.later(tc.path + "&wait=true&timeout=60000")
		b.parked(1)
		b.push(tc.queue, tc.partition, name)
		if got := answer(); got.ids() != name {
			t.Errorf("a poll %s answers %d %s", name, got.Status, got.Raw)
		}
		b.parked(0)
	}
}

func TestLongPoll_AnswersANackAtOnce(t *testing.T) {
	t.Parallel()
	// The backstop looks once an hour here: only the wake can be the reason.
	b := setup(t)
	slow := start(t, b.database.Config, func(s *settings) { s.WaitInitial, s.WaitMax = 3_600_000, 3_600_000 })
	b.process = slow
	for _, path := range []string{"/queue/q.x?wait=true&timeout=60000", "/queue/q.x/partition/p?wait=true&timeout=60000", "?namespace=q&wait=true&timeout=60000"} {
		b.exec("TRUNCATE queen.cursors")
		id := fmt.Sprint("of ", path)
		b.push("q.x", "p", id)
		b.exec("UPDATE queen.queues SET lease_seconds = 3600")
		first := b.mustPop(http.StatusOK, "/queue/q.x?wait=true&batch=1000")
		answer := b.later(path)
		b.parked(1)
		b.mustAck("", first.items("retry")...)
		second := answer()
		if second.ids() != first.ids() || second.Messages[0].DeliveryAttempt != 2 {
			t.Errorf("%s answers %d %s", path, second.Status, second.Raw)
		}
		b.mustAck("", second.items("ok")...)
	}
}

func TestLongPoll_EndsEmptyBeforeItsTimeout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, path := range []string{"/queue/q?wait=true&timeout=300", "/queue/q/partition/p?wait=true&timeout=300", "?task=x&wait=true&timeout=300", "/queue/q?wait=true&timeout=0"} {
		b.mustPop(http.StatusNoContent, path)
	}
	b.parked(0)
}

func TestLongPoll_WakesOneForOnePartition(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const polls = 8
	var answers []func() popped
	for range polls {
		answers = append(answers, b.later("/queue/q?wait=true&timeout=60000&batch=1&leaseSeconds=3600"))
	}
	b.parked(polls)
	for i := range polls {
		b.push("q", fmt.Sprint("p", i), fmt.Sprint(i))
	}
	seen := map[string]bool{}
	for _, answer := range answers {
		seen[answer().ids()] = true
	}
	if len(seen) != polls {
		t.Errorf("%d polls have %v", polls, seen)
	}
}

func TestLongPoll_BeyondTheBoundIsTurnedAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.process = start(t, b.database.Config, func(s *settings) { s.MaxWaiters = 2 })
	first, second := b.later("/queue/q?wait=true&timeout=60000"), b.later("/queue/q?wait=true&timeout=60000&consumerGroup=g&subscriptionMode=all")
	b.parked(2)
	refused := b.mustPop(http.StatusServiceUnavailable, "/queue/q?wait=true&timeout=60000")
	if refused.Header.Get("Retry-After") != "1" {
		t.Errorf("%v %s", refused.Header, refused.Raw)
	}
	b.push("q", "p", "a")
	if first().ids() != "a" || second().ids() != "a" {
		t.Error("the parked polls are not answered")
	}
}

func TestLongPoll_AClientThatLeavesStrandsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() {
		_, err := b.popContext(ctx, "/queue/q?wait=true&timeout=60000")
		left <- err
	}()
	b.parked(1)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	b.parked(0)
	b.push("q", "p", "a")
	if got := b.mustPop(http.StatusOK, "/queue/q"); got.ids() != "a" {
		t.Errorf("%s", got.Raw)
	}
}

func TestStop_AnswersParkedPollsAndEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	answers := []func() popped{
		b.later("/queue/q?wait=true&timeout=60000"), b.later("/queue/q/partition/p?wait=true&timeout=60000"), b.later("?namespace=n&wait=true&timeout=60000"),
	}
	b.parked(len(answers))
	ended := make(chan error, 1)
	go func() { ended <- b.stop() }()
	for _, answer := range answers {
		if got := answer(); got.Status != http.StatusNoContent {
			t.Errorf("a parked poll is answered %d %s", got.Status, got.Raw)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestDatabaseAway_EveryRouteAnswers503(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // a port that nobody answers
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().(*net.TCPAddr)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	p := start(t, pg.Config{Host: "127.0.0.1", Port: address.Port, User: "u", Password: "p", Database: "d"}, func(*settings) {})
	tests := []struct{ method, path, body string }{
		{http.MethodGet, "/api/v1/pop/queue/q", ""},
		{http.MethodGet, "/api/v1/pop/queue/q?wait=true&timeout=60000", ""},
		{http.MethodGet, "/api/v1/pop/queue/q/partition/p?wait=true", ""},
		{http.MethodGet, "/api/v1/pop?namespace=n&wait=true", ""},
		{http.MethodPost, "/api/v1/ack", `{"transactionId":"a","partitionId":"6f0c2a52-1b6e-4e0e-9f63-8b6e0c5f2d10"}`},
		{http.MethodPost, "/api/v1/lease/6f0c2a52-1b6e-4e0e-9f63-8b6e0c5f2d10/extend", ""},
		{http.MethodGet, "/health", ""},
		{http.MethodGet, "/readyz", ""},
	}
	for _, test := range tests {
		status, header, body, err := p.do(context.Background(), test.method, test.path, test.body)
		if err != nil || status != http.StatusServiceUnavailable {
			t.Errorf("%s answers %d %s %v", test.path, status, body, err)
		}
		if test.path[:5] == "/api/" && header.Get("Retry-After") == "" {
			t.Errorf("%s says no Retry-After: %s", test.path, body)
		}
	}
	if status, _, _, err := p.do(context.Background(), http.MethodGet, "/livez", ""); err != nil || status != http.StatusOK {
		t.Errorf("/livez answers %d %v", status, err)
	}
}

func TestDatabaseHangs_APopIsAnsweredAllTheSame(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // connections are made and never answered
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, pg.Config{Host: "127.0.0.1", Port: listener.Addr().(*net.TCPAddr).Port, User: "u", Password: "p", Database: "d"}, func(*settings) {})
	t.Cleanup(func() { _ = listener.Close() })
	got, err := p.pop("/queue/q?wait=true&timeout=60000")
	if err != nil || got.Status != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s %v", got.Status, got.Raw, err)
	}
}

func TestReadFailsAfterAClaim_TheSpanIsGivenBack(t *testing.T) {
	t.Parallel()
	b := setupWith(t, func(s *settings) { s.SegmentCache = 0 })
	b.push("q", "p", "a")
	paths := []string{"/queue/q?leaseSeconds=3600", "/queue/q/partition/p?leaseSeconds=3600", "?namespace=q&leaseSeconds=3600"}
	for range 2 {
		b.exec("ALTER FUNCTION queen.read_segments RENAME TO read_segments_away")
		for _, path := range paths {
			b.mustPop(http.StatusServiceUnavailable, path)
		}
		b.exec("ALTER FUNCTION queen.read_segments_away RENAME TO read_segments")
		got := b.mustPop(http.StatusOK, "/queue/q?wait=true&timeout=60000")
		if got.ids() != "a" || got.Messages[0].DeliveryAttempt != 1 {
			t.Errorf("%s", got.Raw)
		}
		status, _, body, err := b.do(context.Background(), http.MethodPost, "/internal/api/lease/"+got.LeaseID+"/release", "")
		if err != nil || status != http.StatusOK {
			t.Errorf("%d %s %v", status, body, err)
		}
	}
	if got := b.metric(`queen_leases_given_back_total{reason="unread"}`); got != 6 {
		t.Errorf("%v partitions were given back", got)
	}
}
