package model_test

import (
	"fmt"
	"strings"
	"time"
)

// someLease is a lease given lately.
func (h *history) someLease() *lease {
	if len(h.leases) == 0 {
		h.Skip("no lease was given")
	}
	return h.leases[max(len(h.leases)-1-h.number("lease", 0, 2), 0)]
}

// holding is every cursor that the lease holds alive.
func (h *history) holding(l *lease) (cursors []*cursor) {
	for _, q := range h.queues {
		for _, s := range q.groups {
			for _, c := range s.cursors {
				if c.live && c.lease == l {
					cursors = append(cursors, c)
				}
			}
		}
	}
	return cursors
}

func (h *history) extend() {
	l := h.someLease()
	h.Logf("extend %s", named(l))
	extension, err := h.reader().Extend(h.Context(), l.id, time.Hour)
	if err != nil {
		h.Fatal(err)
	}
	want := len(h.holding(l))
	h.count("extended", want)
	if extension.Renewed != want || extension.ExpiresAt.IsZero() != (want == 0) {
		h.Fatalf("%+v, want %d renewed", extension, want)
	}
}

// expire lets the time of a lease pass.
func (h *history) expire() {
	l := h.someLease()
	h.Logf("%s expires", named(l))
	for _, c := range h.holding(l) {
		c.live = false
		h.count("expired", 1)
	}
	if _, err := h.db.Exec(h.Context(), `UPDATE queen.cursors SET lease_expires_at = clock_timestamp() - interval '1 ms' WHERE lease_id = $1`, l.id); err != nil {
		h.Fatal(err)
	}
}

// giveBack undoes the deliveries of a lease, those of which nothing was acknowledged.
func (h *history) giveBack() {
	l := h.someLease()
	h.Logf("give back %s", named(l))
	released := 0
	for _, c := range h.holding(l) {
		if c.committed < c.head {
			c.lease, c.live, c.batchEnd = nil, false, -1
			c.attempt, c.alone = c.attempt-1, max(c.alone-1, 0)
			released++
			h.count("given back", 1)
		}
	}
	status, answer := h.call("POST", "/internal/api/lease/"+l.id+"/release", "{}")
	if status == 404 { // the edge does not take it from outside
		status, answer = h.callAt(h.cell.Deliver[0], "POST", "/internal/api/lease/"+l.id+"/release", "{}")
	}
	if status != 200 || !strings.Contains(answer, fmt.Sprintf(`"released":%d`, released)) {
		h.Fatalf("%d %s, want %d released", status, answer, released)
	}
}
