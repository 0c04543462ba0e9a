package model_test

import (
	"testing"

	"pgregory.net/rapid"
)

func TestHistoriesFollowTheModel(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	rapid.Check(t, func(rt *rapid.T) {
		h := s.begin(rt)
		step := func(do func()) func(*rapid.T) { return func(*rapid.T) { do() } }
		rt.Repeat(map[string]func(*rapid.T){
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
			"give back":     step(h.giveBack),
			"configure":     step(h.configure),
			"delete": step(func() {
				if h.oneIn(3, "really") {
					h.drop()
				}
			}),
			"": step(h.agree),
		})
		h.deadAgree()
	})
}
