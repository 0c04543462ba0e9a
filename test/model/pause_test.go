package model_test

import (
	"fmt"
	"strings"
)

// pause stops the deliveries of a queue or of a group of it, or lets them go on.
func (h *history) pause(paused bool) {
	name, group := h.queueName(h.pick("queue", h.queueNames...)), ""
	path, verb := "/api/v1/resources/queues/"+name, map[bool]string{true: "pause", false: "resume"}[paused]
	q := h.queue(name)
	var at *bool
	if q != nil {
		at = &q.paused
	}
	if h.oneIn(2, "one group") {
		group = h.pick("group", h.groupNames...)
		path, at = "/api/v1/consumer-groups/"+group+"/queues/"+name, nil
		if q != nil && q.groups[group] != nil {
			at = &q.groups[group].paused
		}
	}
	h.Logf("%s %s %s", verb, short(name), group)
	status, answer := h.call("POST", path+"/"+verb, "")
	if at == nil {
		if status != 404 {
			h.Fatalf("%d %s, want 404", status, answer)
		}
		return
	}
	changed := *at != paused
	*at = paused
	if status != 200 || !strings.Contains(answer, fmt.Sprintf(`"changed":%v`, changed)) {
		h.Fatalf("%d %s, want changed %v", status, answer, changed)
	}
	h.count(verb, 1)
}

// end ends a lease from outside, as if its time had passed.
func (h *history) end() {
	l := h.someLease()
	h.Logf("end %s", named(l))
	held := h.holding(l)
	for _, c := range held {
		c.live = false
		h.count("ended", 1)
	}
	if status, answer := h.call("DELETE", "/api/v1/leases/"+l.id, ""); status != 200 || !strings.Contains(answer, fmt.Sprintf(`"released":%d`, len(held))) {
		h.Fatalf("%d %s, want %d", status, answer, len(held))
	}
}
