package model_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"queen.internal/test/internal/cell"
)

func TestHistoriesOfOneConsumerFollowTheModel(t *testing.T) {
	t.Parallel()
	cell.EachShape(t, func(t *testing.T, s cell.Shape) { follow(t, s, few) })
}

func TestHistoriesOfManyFollowTheModel(t *testing.T) {
	t.Parallel()
	cell.EachShape(t, func(t *testing.T, s cell.Shape) { follow(t, s, many) })
}

// shortLimit is how long histories may be begun on a shape of the stack that is not the shipped one.
const shortLimit = 10 * time.Second

// follow runs histories until there are enough of them, or the time is over in which they may begin. A failed one is
// shrunk in any time.
func follow(t *testing.T, shape cell.Shape, from names) {
	s, limit := newStand(t, shape), *limit
	if !shape.Full() {
		limit = min(limit, shortLimit)
	}
	defer func() { t.Log(s.told()) }()
	began, failed := time.Now(), false
	rapid.Check(t, func(rt *rapid.T) {
		if limit > 0 && time.Since(began) > limit && !failed {
			return
		}
		s.count("histories", 1)
		h := s.begin(rt, from)
		failed = true // unless it comes to its end
		h.run()
		failed = false
	})
}

// run is one history.
func (h *history) run() {
	h.configure()
	h.backlog()
	step := func(do func()) func(*rapid.T) { return func(*rapid.T) { do() } }
	h.Repeat(map[string]func(*rapid.T){
		"push":          step(h.push),
		"backlog":       step(h.backlog),
		"pop":           step(func() { h.pop("queue") }),
		"pop again":     step(func() { h.pop("queue") }),
		"pop partition": step(func() { h.pop("partition") }),
		"discover":      step(func() { h.pop("namespace") }),
		"ack span":      step(h.ackSpan),
		"ack":           step(h.ackSpan),
		"ack last":      step(h.ackLast),
		"ack anything":  step(h.ackAnything),
		"extend":        step(h.extend),
		"expire":        step(h.expire),
		"end":           step(h.end),
		"pause":         step(func() { h.pause(true) }),
		"resume":        step(func() { h.pause(false) }),
		"resume again":  step(func() { h.pause(false) }),
		"give back":     step(h.giveBack),
		"configure":     step(h.configure),
		"transact":      step(h.transact),
		"transact ":     step(h.transact),
		"seek":          step(h.seek),
		"delete group": step(func() {
			if h.oneIn(3, "really") {
				h.forget()
			}
		}),
		"purge": step(h.purge),
		"delete": step(func() {
			if h.oneIn(4, "really") {
				h.drop()
			}
		}),
		"": step(func() {
			h.count("steps", 1)
			h.agree()
		}),
	})
	h.deadAgree()
}
