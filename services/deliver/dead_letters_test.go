package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"queen.internal/pkg/config"
)

// deadLetter makes a dead letter of the next message of a queue for a group, and returns its wire address.
func (b *bundle) deadLetter(queueName, group string) message {
	b.t.Helper()
	got := b.mustPop(http.StatusOK, "/queue/"+queueName+"?subscriptionMode=all&batch=1&consumerGroup="+group)
	for _, r := range b.mustAck(group, got.items("dlq")...) {
		if !r.Success {
			b.t.Fatalf("dead-letter %s: %+v", got.ids(), r)
		}
	}
	return got.Messages[0]
}

// ask makes a request and returns the answer's status and body.
func (b *bundle) ask(method, path string) (int, string) {
	b.t.Helper()
	status, _, body, err := b.do(context.Background(), method, path, "")
	if err != nil {
		b.t.Fatal(err)
	}
	return status, string(body)
}

func (b *bundle) countDeadLetters() (n int) {
	b.t.Helper()
	if err := b.database.Pool.QueryRow(context.Background(), `SELECT count(*) FROM queen.dlq`).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

func TestPurge_OverHTTP(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, q := range []string{"a", "b"} {
		b.push(q, "p", q+"1", q+"2")
		for _, group := range []string{"g", "h"} {
			b.deadLetter(q, group)
			b.deadLetter(q, group)
		}
	}
	for _, test := range []struct {
		query, want string
		status      int
		left        int
	}{
		{"", `{"error":"queue is required"}`, http.StatusBadRequest, 8},
		{"?queue=", `{"error":"queue is required"}`, http.StatusBadRequest, 8},
		{"?consumerGroup=g", `{"error":"queue is required"}`, http.StatusBadRequest, 8},
		{"?queue=%01", `{"error":"queue contains a control character"}`, http.StatusBadRequest, 8},
		{"?queue=nowhere", `{"success":true,"deleted":0,"queue":"nowhere","consumerGroup":null}`, http.StatusOK, 8},
		{"?queue=a&consumerGroup=g", `{"success":true,"deleted":2,"queue":"a","consumerGroup":"g"}`, http.StatusOK, 6},
		{"?queue=a&consumerGroup=", `{"success":true,"deleted":2,"queue":"a","consumerGroup":null}`, http.StatusOK, 4},
		{"?queue=a", `{"success":true,"deleted":0,"queue":"a","consumerGroup":null}`, http.StatusOK, 4},
	} {
		status, body := b.ask(http.MethodDelete, "/api/v1/dlq"+test.query)
		if status != test.status || body != test.want {
			t.Errorf("%s is %d %s", test.query, status, body)
		}
		if left := b.countDeadLetters(); left != test.left {
			t.Errorf("%s leaves %d dead letters, want %d", test.query, left, test.left)
		}
	}
}

func TestDeleteMessage_TakesTheDeadLettersOfAnAddress(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const id = "a/b?c %é"
	b.push("q", "p", id, "other")
	first := b.deadLetter("q", "g")
	b.deadLetter("q", "g")
	b.deadLetter("q", "h")

	address := "/api/v1/messages/" + first.PartitionID + "/" + url.PathEscape(id)
	want := fmt.Sprintf(`{"success":true,"partitionId":"%s","transactionId":"%s","message":"Message deleted successfully"}`, first.PartitionID, id)
	if status, body := b.ask(http.MethodDelete, address); status != http.StatusOK || body != want {
		t.Errorf("%d %s, want %s", status, body, want)
	}
	if left := b.countDeadLetters(); left != 1 {
		t.Errorf("%d dead letters are left, want the other message's", left)
	}
	// The message itself was not touched: a group that has not read it yet gets it.
	if got := b.mustPop(http.StatusOK, "/queue/q?subscriptionMode=all&consumerGroup=late"); got.ids() != id+" other" {
		t.Errorf("a new group gets %s", got.ids())
	}

	for _, test := range []struct{ partition, transaction string }{
		{first.PartitionID, id},
		{first.PartitionID, "never"},
		{"00000000-0000-0000-0000-000000000000", id},
		{"no uuid", id},
		{first.PartitionID, "with\x00nothing"},
		{first.PartitionID, "no UTF-8 \xff"},
	} {
		status, body := b.ask(http.MethodDelete, "/api/v1/messages/"+url.PathEscape(test.partition)+"/"+url.PathEscape(test.transaction))
		if status != http.StatusNotFound || !strings.HasPrefix(body, `{"success":false,"partitionId":"`+test.partition+`"`) ||
			!strings.Contains(body, `,"error":"Message not found","message":"`) {
			t.Errorf("%q is %d %s", test, status, body)
		}
	}
}

func TestDeadLetters_AreOfOneTenant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.process = start(t, b.database.Config, func(s *settings) { s.Tenancy = config.Tenancy{Header: true, TrustedProxy: true} })
	b.push("q", "p", "x")
	m := b.deadLetter("q", "g")
	for _, path := range []string{"/api/v1/dlq?queue=q", "/api/v1/messages/" + m.PartitionID + "/x"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, b.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("x-queen-tenant", "00000000-0000-0000-0000-000000000002")
		res, err := b.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if left := b.countDeadLetters(); left != 1 {
			t.Errorf("another tenant's %s leaves %d dead letters", path, left)
		}
	}
}
