package history_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"queen.internal/test/history"
)

var here = history.Partition{Queue: "q", Name: "p"}

// during is a call from one second to another.
func during(begin, end float64) history.Call {
	return history.Call{Begin: time.Duration(begin * float64(time.Second)), End: time.Duration(end * float64(time.Second))}
}

func lost(c history.Call) history.Call {
	c.Lost = true
	return c
}

func pushed(c history.Call, status string, keys ...string) history.Push {
	p := history.Push{Call: c}
	for _, key := range keys {
		p.Items = append(p.Items, history.PushItem{Partition: here, Key: key, ID: "id-" + key, Status: status})
	}
	return p
}

func popped(c history.Call, lease string, attempt int, keys ...string) history.Pop {
	span := history.Span{Partition: here, Attempt: attempt}
	for _, key := range keys {
		span.IDs = append(span.IDs, "id-"+key)
	}
	return history.Pop{Call: c, Group: "g", Lease: lease, Length: 10 * time.Second, Spans: []history.Span{span}}
}

func acked(c history.Call, lease string, released bool, keys ...string) history.Ack {
	a := history.Ack{Call: c, Group: "g", Partition: here, Lease: lease, Released: released}
	for _, key := range keys {
		a.Items = append(a.Items, history.AckItem{ID: "id-" + key, Status: history.Completed, OK: true})
	}
	return a
}

func refused(a history.Ack) history.Ack {
	for i := range a.Items {
		a.Items[i].OK = false
	}
	return a
}

func signalled(a history.Ack, status string) history.Ack {
	for i := range a.Items {
		a.Items[i].Status = status
	}
	return a
}

// correct is a history without fault: two pushes at once and one after them, a duplicate, a span that is completed in
// part, a nack, an expiry, an extension, an ack that came too late.
func correct() *history.History {
	return &history.History{
		Pushes: []history.Push{
			pushed(during(0, 2), history.Queued, "b", "c"), pushed(during(1, 3), history.Queued, "a"), pushed(during(4, 5), history.Queued, "d"),
			pushed(during(1.5, 6), history.Duplicate, "d"), pushed(during(4, 5), history.Duplicate, "a", "b"),
		},
		Pops: []history.Pop{
			popped(during(6, 7), "L1", 1, "a", "b", "c"),
			popped(during(9, 10), "L2", 1, "b", "c"),
			popped(during(15, 21), "L3", 2, "b"), // L2 has expired
			popped(during(30, 31), "L4", 1, "c", "d"),
			{Call: during(1, 2), Group: "skim", AutoAck: true, Spans: []history.Span{{Partition: here, Attempt: 1, IDs: []string{"id-a"}}}},
		},
		Acks: []history.Ack{
			acked(during(7, 8), "L1", false, "a"), signalled(acked(during(8, 8.5), "L1", true, "b"), "retry"),
			refused(acked(during(22, 23), "L2", false, "b")), acked(during(25, 26), "L3", true, "b"),
			acked(during(43, 44), "L4", true, "d"),
		},
		Extends: []history.Extend{{Call: during(39, 40), Lease: "L4", Length: 20 * time.Second, Renewed: 1}},
		Log:     map[history.Partition][]history.Entry{here: {{"id-a", "a"}, {"id-b", "b"}, {"id-c", "c"}, {"id-d", "d"}}},
		Drained: []string{"g"},
		Skew:    time.Millisecond,
	}
}

// Each case is the correct history with one thing changed. Without rules the change is one that can be explained.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	type mutation struct {
		name   string
		change func(h *history.History)
		rules  []string
	}
	for _, m := range []mutation{
		{"Nothing", func(*history.History) {}, nil},

		{"QueuedAndNotStored", func(h *history.History) {
			h.Pushes = append(h.Pushes, pushed(during(50, 51), history.Queued, "lost"))
		}, []string{history.RuleLog}},
		{"StoredAndNeverPushed", func(h *history.History) {
			h.Log[here] = append(h.Log[here], history.Entry{ID: "id-x", Key: "x"})
			h.Drained = nil
		}, []string{history.RuleLog}},
		{"StoredByALostPush", func(h *history.History) {
			h.Log[here] = append(h.Log[here], history.Entry{ID: "id-x", Key: "x"})
			h.Pushes, h.Drained = append(h.Pushes, pushed(lost(during(1, 2)), "", "x")), nil
		}, nil},
		{"DuplicateOfNothing", func(h *history.History) {
			h.Pushes = append(h.Pushes, pushed(during(50, 51), history.Duplicate, "x"))
		}, []string{history.RuleLog}},

		{"BufferedAndNotStored", func(h *history.History) {
			h.Pushes = append(h.Pushes, pushed(during(50, 51), history.Buffered, "lost"))
		}, []string{history.RuleLog}},
		{"BufferedAndStoredLater", func(h *history.History) {
			h.Pushes, h.Drained = append(h.Pushes, pushed(during(0, 0.5), history.Buffered, "x")), nil
			h.Log[here] = append(h.Log[here], history.Entry{ID: "id-x", Key: "x"})
		}, nil},
		{"BufferedAndStoredBeforeItBegan", func(h *history.History) {
			h.Pushes, h.Drained = append(h.Pushes, pushed(during(50, 51), history.Buffered, "x"), pushed(during(52, 53), history.Queued, "y"), pushed(during(40, 41), history.Queued, "z")), nil
			h.Log[here] = append(h.Log[here], history.Entry{ID: "id-x", Key: "x"}, history.Entry{ID: "id-z", Key: "z"}, history.Entry{ID: "id-y", Key: "y"})
		}, []string{history.RuleOrder}},
		{"BufferedAndStoredUnderAnotherID", func(h *history.History) {
			h.Pushes, h.Drained = append(h.Pushes, pushed(during(0, 0.5), history.Buffered, "x")), nil
			h.Log[here] = append(h.Log[here], history.Entry{ID: "id-y", Key: "x"})
		}, []string{history.RuleDedup}},
		{"BufferedAndStoredByAnother", func(h *history.History) {
			h.Pushes, h.Drained = append(h.Pushes, pushed(during(0, 0.5), history.Buffered, "x"), pushed(lost(during(0, 0.5)), "", "x")), nil
			h.Log[here] = append(h.Log[here], history.Entry{ID: "id-y", Key: "x"})
		}, nil},
		{"BufferedAndOvertakenAtItsServer", func(h *history.History) {
			first, second := pushed(during(50, 51), history.Buffered, "x"), pushed(during(52, 53), history.Queued, "y")
			first.Server, second.Server = "ingest.1", "ingest.1"
			h.Pushes, h.Drained = append(h.Pushes, first, second), nil
			h.Log[here] = append(h.Log[here], history.Entry{ID: "id-y", Key: "y"}, history.Entry{ID: "id-x", Key: "x"})
		}, []string{history.RuleServer}},
		{"BufferedAndOvertakenElsewhere", func(h *history.History) {
			first, second := pushed(during(50, 51), history.Buffered, "x"), pushed(during(52, 53), history.Queued, "y")
			first.Server, second.Server = "ingest.1", "ingest.2"
			h.Pushes, h.Drained = append(h.Pushes, first, second), nil
			h.Log[here] = append(h.Log[here], history.Entry{ID: "id-y", Key: "y"}, history.Entry{ID: "id-x", Key: "x"})
		}, nil},

		{"QueuedTwice", func(h *history.History) {
			h.Pushes = append(h.Pushes, pushed(during(4, 5), history.Queued, "d"))
		}, []string{history.RuleDedup}},
		{"StoredTwice", func(h *history.History) {
			h.Log[here] = append(h.Log[here], history.Entry{ID: "id-2", Key: "d"})
			h.Drained = nil
		}, []string{history.RuleDedup, history.RuleDedup, history.RuleDedup}},
		{"AnotherIDForADuplicate", func(h *history.History) { h.Pushes[4].Items[0].ID = "other" }, []string{history.RuleDedup}},
		{"DuplicateBeforeAnyPush", func(h *history.History) {
			h.Pushes = append(h.Pushes, pushed(during(0.1, 0.9), history.Duplicate, "a"))
		}, []string{history.RuleDedup}},
		{"DuplicateOfALostPush", func(h *history.History) {
			h.Pushes = append(h.Pushes, pushed(during(0.1, 0.9), history.Duplicate, "a"), pushed(lost(during(0, 1)), "", "a"))
			h.Pushes[1] = pushed(during(1, 3), history.Duplicate, "a")
		}, nil},
		{"NotTheFirstOfItsRequest", func(h *history.History) {
			h.Pushes[0].Items = append([]history.PushItem{{Partition: here, Key: "b", ID: "id-b", Status: history.Duplicate}}, h.Pushes[0].Items...)
		}, []string{history.RuleDedup}},

		{"PushesThatOverlap", func(h *history.History) { h.Pushes[1].Call = during(1.9, 3) }, nil},
		{"OffsetsAgainstTime", func(h *history.History) {
			h.Pushes[0].Call, h.Pushes[1].Call = during(0, 0.5), during(1, 3)
		}, []string{history.RuleOrder, history.RuleOrder}},
		{"OffsetsAgainstTheRequest", func(h *history.History) { slices.Reverse(h.Pushes[0].Items) }, []string{history.RuleOrder}},
		{"LostPushBeforeAnAnsweredOne", func(h *history.History) {
			h.Pushes[1] = pushed(lost(during(0, 3)), "", "a")
			h.Pushes[0].Call = during(0, 0.5)
		}, nil},
		{"LostPushBeganAfterALaterOneWasAnswered", func(h *history.History) {
			h.Pushes[1] = pushed(lost(during(1, 3)), "", "a")
			h.Pushes[0].Call = during(0, 0.5)
		}, []string{history.RuleOrder, history.RuleOrder}},

		{"SpanWithAGap", func(h *history.History) {
			h.Pops = append(h.Pops, popped(during(90, 91), "L9", 1, "a", "c"))
		}, []string{history.RuleSpan}},
		{"ConsumedWithAGap", func(h *history.History) {
			h.Pops[4].Spans[0].IDs = []string{"id-a", "id-c"}
		}, []string{history.RuleSpan}},
		{"ConsumedBackwards", func(h *history.History) {
			h.Pops[4].Spans[0].IDs = []string{"id-b", "id-a"}
		}, []string{history.RuleSpan}},
		{"DeliveredAndNeverStored", func(h *history.History) {
			h.Pops = append(h.Pops, popped(during(90, 91), "L9", 1, "x"))
		}, []string{history.RuleSpan}},

		{"TwoLeases", func(h *history.History) { h.Pops[2] = popped(during(15, 18), "L3", 2, "b") }, []string{history.RuleLease}},
		{"TwoLeasesGrantedAtOnce", func(h *history.History) {
			h.Pops[2] = popped(during(9, 10), "L3", 2, "b")
			h.Acks[3].Call = during(14, 14.5)
		}, []string{history.RuleLease}},
		{"LeaseMayHaveExpired", func(h *history.History) { h.Pops[2] = popped(during(15, 19.1), "L3", 2, "b") }, nil},
		{"LeaseMayHaveBeenEndedByALostAck", func(h *history.History) {
			h.Pops[2] = popped(during(15, 18), "L3", 2, "b")
			ack := acked(lost(during(12, 13)), "L2", false, "b")
			h.Acks = append(h.Acks, signalled(ack, "retry"))
			h.Acks[3].Call = during(20, 21)
		}, nil},
		{"LeaseMayHaveBeenEndedWithoutALease", func(h *history.History) {
			h.Pops[2] = popped(during(15, 18), "L3", 2, "b")
			ack := acked(during(12, 16), "", true, "b")
			h.Acks = append(h.Acks, signalled(ack, "retry"))
			h.Acks[3].Call = during(20, 21)
		}, nil},
		{"LeaseInAnExtension", func(h *history.History) { h.Pops = append(h.Pops, popped(during(41, 42), "L5", 2, "c")) }, []string{history.RuleLease, history.RuleStale}},
		{"ExtensionOfAnotherPartition", func(h *history.History) {
			h.Pops = append(h.Pops, popped(during(41, 42), "L5", 2, "c"))
			h.Pops[3].Spans = append(h.Pops[3].Spans, history.Span{})
			h.Acks[4] = refused(h.Acks[4])
			h.Drained = nil
		}, nil},
		{"ConsumedUnderALease", func(h *history.History) {
			h.Pops = append(h.Pops, popped(during(32, 33), "", 1, "c"))
			h.Pops[5].AutoAck = true
		}, []string{history.RuleLease, history.RuleStale}},

		{"AckAfterExpiry", func(h *history.History) {
			h.Acks[3] = acked(during(32, 33), "L3", true, "b")
			h.Pops[3].Call = during(40, 41)
			h.Extends[0].Call, h.Acks[4].Call = during(42, 43), during(44, 45)
		}, []string{history.RuleStale}},
		{"AckAfterAnotherGrant", func(h *history.History) {
			h.Acks[2] = acked(during(22, 23), "L2", false, "b")
			h.Pops[1].Length = time.Minute
			h.Pops[2].Call = during(15, 21)
		}, []string{history.RuleLease, history.RuleStale}},

		{"DeliveredAfterItsCompletion", func(h *history.History) {
			h.Pops = append(h.Pops, popped(during(70, 71), "L9", 3, "c", "d"))
			h.Pops[5].Spans[0].Attempt = 2
		}, []string{history.RuleRedelivery}},
		{"CompletedByAnAckOfALaterOne", func(h *history.History) {
			h.Pops = append(h.Pops, popped(during(70, 71), "L9", 2, "c"))
		}, []string{history.RuleRedelivery}},
		{"DeliveredWhileItsCompletionWasUnderWay", func(h *history.History) {
			h.Pops = append(h.Pops, popped(during(60.1, 70), "L9", 2, "c"))
			h.Acks[4].Call = during(43, 61)
		}, nil},
		{"DeliveredAfterADeadLetter", func(h *history.History) {
			h.Pops = append(h.Pops, popped(during(70, 71), "L9", 1, "d"))
			h.Acks[4] = signalled(h.Acks[4], "dlq")
			h.Acks[4].Dead = true
		}, []string{history.RuleRedelivery, history.RuleHead}},

		{"StartsLowerThanBefore", func(h *history.History) {
			h.Pops[3] = popped(during(30, 31), "L4", 2, "a", "b", "c", "d")
			h.Acks[0], h.Acks[3] = refused(h.Acks[0]), refused(h.Acks[3])
		}, []string{history.RuleHead, history.RuleHead, history.RuleHead}},
		{"SkipsAMessage", func(h *history.History) { h.Pops[1] = popped(during(9, 10), "L2", 1, "c") }, []string{history.RuleHead, history.RuleHead, history.RuleAttempt}},
		{"FirstDeliveriesAgainstTheOrder", func(h *history.History) {
			h.Pops[0] = popped(during(6, 7), "L1", 1, "c")
			h.Acks, h.Drained = nil, nil
			h.Pops = h.Pops[:1]
			h.Pops = append(h.Pops, popped(during(20, 21), "L2", 1, "a", "b"))
		}, []string{history.RuleHead, history.RuleHead, history.RuleFirst, history.RuleFirst}},
		{"NeverDelivered", func(h *history.History) {
			h.Pops = h.Pops[:1]
			h.Pops[0] = popped(during(6, 7), "L1", 1, "b", "c", "d")
			h.Acks, h.Drained = nil, nil
		}, []string{history.RuleHead, history.RuleFirst}},
		{"ConsumedByALostPop", func(h *history.History) {
			h.Pops = h.Pops[:1]
			h.Pops[0] = popped(during(6, 7), "L1", 1, "b", "c", "d")
			h.Acks, h.Drained = nil, nil
			h.Pops = append(h.Pops, history.Pop{Call: lost(during(5, 6)), Group: "g", AutoAck: true})
		}, nil},

		{"NumberTwice", func(h *history.History) { h.Pops[2].Spans[0].Attempt = 1 }, []string{history.RuleAttempt}},
		{"NumberTooHigh", func(h *history.History) { h.Pops[2].Spans[0].Attempt = 3 }, []string{history.RuleAttempt}},
		{"NumberOfALostPop", func(h *history.History) {
			h.Pops[2].Spans[0].Attempt = 3
			h.Pops = append(h.Pops, popped(lost(during(12, 13)), "", 0))
		}, nil},
		{"NumbersAgainstTime", func(h *history.History) {
			h.Pops[1].Spans[0].Attempt, h.Pops[2].Spans[0].Attempt = 2, 1
		}, []string{history.RuleAttempt}},
		{"NumberOfAConsumption", func(h *history.History) { h.Pops[4].Spans[0].Attempt = 2 }, []string{history.RuleAttempt}},

		{"DrainedTooEarly", func(h *history.History) { h.Acks = h.Acks[:4] }, []string{history.RuleDrained}},
		{"GroupThatGotNothing", func(h *history.History) { h.Drained = append(h.Drained, "nobody") }, []string{history.RuleDrained}},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			h := correct()
			m.change(h)
			violations := history.Check(h)
			var rules []string
			for _, v := range violations {
				rules = append(rules, v.Rule)
			}
			slices.Sort(rules)
			rules, want := slices.Compact(rules), slices.Compact(slices.Sorted(slices.Values(m.rules)))
			if !slices.Equal(rules, want) {
				t.Errorf("found %v, want %v\n%s", rules, want, lines(violations))
			}
		})
	}
}

func lines(violations []history.Violation) (text string) {
	for _, v := range violations[:min(len(violations), 30)] {
		text += fmt.Sprintln(v)
	}
	if more := len(violations) - 30; more > 0 {
		text += fmt.Sprintln("and", more, "more")
	}
	return text
}
