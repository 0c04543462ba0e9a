package group_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
)

const (
	applied      = group.Applied
	noop         = group.Noop
	already      = group.AlreadyCommitted
	unresolvable = group.Unresolvable
	stale        = group.StaleLease
)

// Five messages "1".."5" at offsets 0..4, leased as one batch; each call of a case acks within that lease.
func TestAckMovesTheCursor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		calls     [][]string
		outcomes  []group.ItemOutcome // of the last call
		committed int64
		released  bool
		dead      []string
	}{
		"LastOfFiveCompletesAll":           {[][]string{{"5"}}, []group.ItemOutcome{applied}, 4, true, nil},
		"MiddleCompletesTheOnesBelow":      {[][]string{{"3"}}, []group.ItemOutcome{applied}, 2, false, nil},
		"RepeatedCompletionIsNoop":         {[][]string{{"3"}, {"2"}}, []group.ItemOutcome{noop}, 2, false, nil},
		"NackBelowTheCursorIsRefused":      {[][]string{{"3"}, {"2-"}}, []group.ItemOutcome{already}, 2, false, nil},
		"LowestFailureWins":                {[][]string{{"1", "2-", "3", "4", "5"}}, []group.ItemOutcome{applied, applied, applied, applied, applied}, 0, true, nil},
		"RetryGivesBackTheRest":            {[][]string{{"1", "2~", "3"}}, []group.ItemOutcome{applied, applied, applied}, 0, true, nil},
		"CompletionAboveAFailureRedelives": {[][]string{{"5", "1-"}}, []group.ItemOutcome{applied, applied}, -1, true, nil},
		"UnknownChangesNothing":            {[][]string{{"never pushed-"}}, []group.ItemOutcome{unresolvable}, -1, false, nil},
		"UnknownDoesNotHinderOthers":       {[][]string{{"2", "never pushed"}}, []group.ItemOutcome{applied, unresolvable}, 1, false, nil},
		"DeadLetterAtOnce":                 {[][]string{{"1", "2!", "3"}}, []group.ItemOutcome{applied, applied, applied}, 1, true, []string{`2 "2" because of 2 0`}},
		"DeadLetterBeatsFailureAtOneSpot":  {[][]string{{"2-", "2!"}}, []group.ItemOutcome{applied, applied}, 1, true, []string{`2 "2" because of 2 0`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.push("p", "1", "2", "3")
			b.push("p", "4", "5", "6")
			sub := b.subscribe("g", all)
			lease, c := b.take(sub, 5, p)
			var r group.AckResult
			for _, items := range tc.calls {
				r = b.ack("g", c, &lease, items...)
			}
			if r.Outcome != group.Decided || r.Committed != tc.committed || r.LeaseReleased != tc.released || r.DeadLettered != (tc.dead != nil) {
				t.Errorf("%+v", r)
			}
			if diff := cmp.Diff(tc.outcomes, r.Items); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.dead, b.deadLetters()); diff != "" {
				t.Error(diff)
			}
			b.expireLeases()
			if _, next := b.take(sub, 10, p); next.First != tc.committed+1 {
				t.Errorf("the next claim starts at %d", next.First)
			}
		})
	}
}

func TestAckWithAStaleLeaseChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2")
	sub := b.subscribe("g", all)
	lost, c := b.take(sub, 2, p)
	b.expireLeases()
	if r := b.ack("g", c, &lost, "2"); r.Items[0] != stale || r.Committed != -1 || r.LeaseReleased {
		t.Errorf("expired lease: %+v", r)
	}
	held, _ := b.take(sub, 2, p)
	foreign := uuid.New()
	for _, lease := range []*uuid.UUID{&lost, &foreign} {
		for _, text := range []string{"2", "1-", "1!"} {
			if r := b.ack("g", c, lease, text); r.Items[0] != stale || r.Committed != -1 || r.LeaseReleased {
				t.Errorf("%s: %+v", text, r)
			}
		}
	}
	if r := b.ack("g", c, &held, "2"); r.Items[0] != applied || !r.LeaseReleased {
		t.Errorf("the holder: %+v", r)
	}
}

func TestAckRepeatedAfterALostAnswerIsNoop(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2")
	sub := b.subscribe("g", all)
	lease, c := b.take(sub, 2, p)
	b.ack("g", c, &lease, "1", "2")
	if r := b.ack("g", c, &lease, "1", "2"); r.Items[0] != noop || r.Items[1] != noop || r.Committed != 1 {
		t.Errorf("%+v", r)
	}
	b.push("p", "3")
	if r := b.ack("g", c, &lease, "3"); r.Items[0] != stale {
		t.Errorf("an ended lease acks new work: %+v", r)
	}
}

func TestAckWithoutALease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2", "3")
	sub := b.subscribe("g", all)
	_, c := b.take(sub, 2, p)
	b.expireLeases()
	if r := b.ack("g", c, nil, "3"); r.Items[0] != unresolvable {
		t.Errorf("beyond the batch on record: %+v", r)
	}
	if r := b.ack("g", c, nil, "2"); r.Items[0] != applied || r.Committed != 1 {
		t.Errorf("%+v", r)
	}
	if r := b.ack("g", c, nil, "3-"); r.Items[0] != applied || r.Committed != 1 || r.LeaseReleased {
		t.Errorf("a nack without a batch on record: %+v", r)
	}
	if r := b.ack("g", c, nil, "3"); r.Items[0] != applied || r.Committed != 2 {
		t.Errorf("%+v", r)
	}
}

func TestAckSpendsTheRetryBudgetOnFailuresOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2")
	sub := b.subscribe("g", all)
	fail := func(text string) group.AckResult {
		lease, c := b.take(sub, 2, p)
		return b.ack("g", c, &lease, text)
	}
	for range 5 {
		b.take(sub, 2, p)
		b.expireLeases()
		fail("1~")
	}
	for n := range 3 {
		if r := fail("1-"); r.DeadLettered || r.Committed != -1 {
			t.Fatalf("failure %d: %+v", n+1, r)
		}
	}
	if r := fail("1-"); !r.DeadLettered || r.Committed != 0 {
		t.Fatalf("failure 4: %+v", r)
	}
	if diff := cmp.Diff([]string{`1 "1" because of 1 3`}, b.deadLetters()); diff != "" {
		t.Error(diff)
	}
	if r := fail("2-"); r.DeadLettered {
		t.Errorf("the budget was not reset: %+v", r)
	}
}

func TestAckDropsExhaustedMessagesWithoutADeadLetterQueue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2")
	b.exec(`UPDATE queen.queues SET retry_limit = 0, dead_letter_queue = false, dead_letter_after_retries = false`)
	sub := b.subscribe("g", all)
	lease, c := b.take(sub, 2, p)
	if r := b.ack("g", c, &lease, "1-"); r.DeadLettered || r.Committed != 0 || !r.LeaseReleased {
		t.Errorf("%+v", r)
	}
	if found := b.deadLetters(); found != nil {
		t.Errorf("%v", found)
	}
}

func TestAckWithinALiveLeaseNeedsNoHashRows(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1", "2", "3")
	b.push("p", "4", "5")
	sub := b.subscribe("g", all)
	lease, c := b.take(sub, 4, p)
	b.exec(`DELETE FROM queen.dedup`)
	if r := b.ack("g", c, &lease, "2", "5", "never pushed"); r.Committed != 1 || r.LeaseReleased {
		t.Errorf("%+v", r)
	} else if diff := cmp.Diff([]group.ItemOutcome{applied, unresolvable, unresolvable}, r.Items); diff != "" {
		t.Error(diff)
	}
	if r := b.ack("g", c, &lease, "3-"); r.Committed != 1 || !r.LeaseReleased {
		t.Errorf("%+v", r)
	}
}

func TestAckKeepsTheMessageWhenItsDeadLetterCannotBeRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("p", "1")
	sub := b.subscribe("g", all)
	lease, c := b.take(sub, 1, p)
	b.exec(`DELETE FROM queen.segments`)
	if r := b.ack("g", c, &lease, "1!"); r.Outcome != group.DeadLetterLost {
		t.Errorf("%+v", r)
	}
	if found := b.deadLetters(); found != nil {
		t.Errorf("%v", found)
	}
}

func TestAckDecidesGroupsIndependently(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p1, p2 := b.push("1", "a", "b"), b.push("2", "c", "d")
	sub := b.subscribe("g", all)
	lease, claims := b.claim(sub, 10, p1, p2)
	results, err := b.group.Ack(t.Context(), queue.DefaultTenant, "g", group.Bounds{}, []group.AckGroup{
		{Partition: claims[1].PartitionUUID, Lease: &lease, Items: []group.AckItem{item("c!")}},
		{Partition: uuid.New(), Lease: &lease, Items: []group.AckItem{item("a")}},
		{Partition: claims[0].PartitionUUID, Lease: &lease, Items: []group.AckItem{item("b")}},
		{Partition: claims[0].PartitionUUID, Items: []group.AckItem{item("a"), {}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := results[0]; !r.DeadLettered || r.Committed != 0 || r.PartitionID != p2 {
		t.Errorf("%+v", r)
	}
	if results[1].Outcome != group.UnknownPartition {
		t.Errorf("%+v", results[1])
	}
	if r := results[2]; !r.LeaseReleased || r.Committed != 1 {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff([]group.ItemOutcome{noop, unresolvable}, results[3].Items); diff != "" {
		t.Error(diff)
	}
	other, err := b.group.Ack(t.Context(), uuid.New(), "g", group.Bounds{}, []group.AckGroup{{Partition: claims[0].PartitionUUID, Items: []group.AckItem{item("a")}}})
	if err != nil || other[0].Outcome != group.UnknownPartition {
		t.Errorf("another tenant: %+v %v", other, err)
	}
	none, err := b.group.Ack(t.Context(), queue.DefaultTenant, "nobody", group.Bounds{}, []group.AckGroup{{Partition: claims[0].PartitionUUID, Items: []group.AckItem{item("a")}}})
	if err != nil || none[0].Outcome != group.NoConsumer {
		t.Errorf("a group without a cursor: %+v %v", none, err)
	}
}

func TestExtendKeepsALiveLeaseAndRevivesNone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p1, p2 := b.push("1", "a"), b.push("2", "b")
	sub := b.subscribe("g", all)
	lease, _ := b.claim(sub, 10, p1, p2)
	known := []group.LeaseKey{{Partition: p1, Subscription: sub.ID}, {Partition: p2, Subscription: sub.ID}}
	extend := func(tenant, lease uuid.UUID, seconds int, keys []group.LeaseKey) group.Extension {
		got, err := b.group.Extend(t.Context(), tenant, lease, seconds, group.Bounds{}, keys)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	longer := extend(queue.DefaultTenant, lease, 600, known)
	if longer.Renewed != 2 || longer.Expires.Before(time.Now().Add(9*time.Minute)) {
		t.Errorf("%+v", longer)
	}
	if searched := extend(queue.DefaultTenant, lease, 1, nil); searched.Renewed != 2 || !searched.Expires.Equal(longer.Expires) {
		t.Errorf("%+v, never backwards from %+v", searched, longer)
	}
	if got := extend(uuid.New(), lease, 60, nil); got.Renewed != 0 || !got.Expires.IsZero() {
		t.Errorf("another tenant: %+v", got)
	}
	b.expireLeases()
	if got := extend(queue.DefaultTenant, lease, 60, known); got.Renewed != 0 {
		t.Errorf("an expired lease: %+v", got)
	}
}
