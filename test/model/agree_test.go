package model_test

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// position is what a cursor's row shows.
type position struct {
	Committed, BatchEnd, Retries int
	Lease                        string
	Live                         bool
}

// agree compares every cursor of the history with the rows.
func (h *history) agree() {
	var names []string
	want := make(map[string]position)
	for _, q := range h.queues {
		names = append(names, q.name)
		for group, s := range q.groups {
			for p, c := range s.cursors {
				at := position{c.committed, c.batchEnd, c.retries, "", c.live}
				if c.lease != nil {
					at.Lease = c.lease.id
				}
				want[short(q.name)+"/"+p.name+" "+group] = at
			}
		}
	}
	rows, err := h.db.Query(h.Context(), `SELECT q.name, p.name, s.group_name, c.committed, coalesce(c.batch_end, -1), c.retry_count,
			coalesce(c.lease_id::text, ''), coalesce(c.lease_expires_at > clock_timestamp(), false)
		FROM queen.queues q JOIN queen.partitions p ON p.queue_id = q.id JOIN queen.subscriptions s ON s.queue_id = q.id
		JOIN queen.cursors c ON c.partition_id = p.id AND c.subscription_id = s.id
		WHERE q.name = ANY ($1) AND q.deleted_at IS NULL`, names)
	if err != nil {
		h.Fatal(err)
	}
	defer rows.Close()
	got := make(map[string]position)
	for rows.Next() {
		var queueName, partitionName, group string
		var at position
		if err := rows.Scan(&queueName, &partitionName, &group, &at.Committed, &at.BatchEnd, &at.Retries, &at.Lease, &at.Live); err != nil {
			h.Fatal(err)
		}
		got[short(queueName)+"/"+partitionName+" "+group] = at
	}
	if err := rows.Err(); err != nil {
		h.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		h.Fatalf("cursors (-model +cell): %s", diff)
	}
}

// deadAgree compares the dead letters of every queue.
func (h *history) deadAgree() {
	for _, q := range h.queues {
		status, answer := h.call("GET", "/api/v1/dlq?limit=1000&queue="+url.QueryEscape(q.name), "")
		var list struct {
			Messages []struct {
				TransactionID, Queue, Partition, ConsumerGroup, ErrorMessage string
				RetryCount                                                   int
				Data                                                         json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(answer), &list); err != nil || status != 200 {
			h.Fatalf("%d %s: %v", status, answer, err)
		}
		var got []deadLetter
		for _, m := range list.Messages {
			got = append(got, deadLetter{m.ConsumerGroup, m.Partition, m.TransactionID, string(m.Data), m.ErrorMessage, m.RetryCount})
		}
		order := cmpopts.SortSlices(func(a, b deadLetter) bool {
			return slices.Compare([]string{a.Group, a.Partition, a.Payload}, []string{b.Group, b.Partition, b.Payload}) < 0
		})
		reasons := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Reason" },
			cmp.Comparer(func(a, b string) bool { return strings.Contains(a, b) || strings.Contains(b, a) }))
		if diff := cmp.Diff(q.dead, got, order, reasons, cmpopts.EquateEmpty()); diff != "" {
			h.Fatalf("dead letters of %s (-model +cell): %s", short(q.name), diff)
		}
	}
}
