package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/client"
	"queen.internal/test/internal/cell"
)

// Acceptance line 2.
func TestConfigureEchoesEveryOptionThatWasSent(t *testing.T) {
	t.Parallel()
	c := shared(t)
	const sent = `{"completedRetentionSeconds":11,"deadLetterQueue":true,"delayedProcessing":0,"dlqAfterMaxRetries":false,` +
		`"encryptionEnabled":false,"leaseTime":12,"maxSize":13,"maxWaitTimeSeconds":14,"priority":5,"retentionEnabled":true,` +
		`"retentionSeconds":15,"retryDelay":16,"retryLimit":17,"ttl":18,"windowBuffer":19,"dedupWindowSeconds":20,"minPopWaitTime":21,` +
		`"deliveryLimit":22,"retentionSinkHold":"archive","retentionSinkHoldMaxSeconds":60,"redeliveryDelaySeconds":23,"spool":false}`
	var want map[string]any
	if err := json.Unmarshal([]byte(sent), &want); err != nil {
		t.Fatal(err)
	}
	for name, request := range map[string]string{"options": `"options":` + sent, "top level": sent[1 : len(sent)-1]} {
		if diff := cmp.Diff(want, c.Configure(t, cell.FreshQueue(), request).Options); diff != "" {
			t.Errorf("%s (-sent +echoed):\n%s", name, diff)
		}
	}
}

// Acceptance line 4.
func TestConfigureWithoutOptionsMakesAUsableQueue(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := cell.FreshQueue()
	if made := c.Configure(t, queue, ""); made.Options["leaseTime"] != 300.0 || made.Namespace != "" || made.Task != "" {
		t.Errorf("%+v", made)
	}
	c.PushNumbered(t, queue, 2)
	batch := c.Pop(t, client.PopRequest{Queue: queue, Group: "g", Mode: "all"})
	if diff := cmp.Diff([]string{"0", "1"}, cell.Transactions(batch)); diff != "" {
		t.Error(diff)
	}
	c.AckAll(t, "g", batch)
}

// Acceptance line 5.
func TestConfigureRetryLimitOfZeroEndsAMessageWithItsFirstFailure(t *testing.T) {
	t.Parallel()
	c := shared(t)
	for name, tc := range map[string]struct {
		options string
		dead    bool
	}{
		"dead letter": {`"retryLimit":0`, true},
		"dropped":     {`"retryLimit":0,"deadLetterQueue":false,"dlqAfterMaxRetries":false`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queue := cell.FreshQueue()
			if made := c.Configure(t, queue, `"options":{`+tc.options+`}`); made.Options["retryLimit"] != 0.0 {
				t.Errorf("%+v", made)
			}
			c.PushNumbered(t, queue, 2)
			batch := c.Pop(t, client.PopRequest{Queue: queue, Group: "g", Mode: "all", Batch: 2})
			result, err := c.Client(t).Ack(t.Context(), "g", client.AckOf(batch.Messages[0], client.NotCompleted))
			if err != nil || !result.Success || result.DeadLettered != tc.dead {
				t.Fatalf("%+v %v", result, err)
			}
			rest := c.Pop(t, client.PopRequest{Queue: queue, Group: "g", Batch: 2, Wait: 5 * time.Second})
			if diff := cmp.Diff([]string{"1"}, cell.Transactions(rest)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// leastAge is what the two seconds of these options are by our clock, at least: the age is told by the database's.
const leastAge = 1900 * time.Millisecond

// popsNothingBefore pops for a group of its own, so that it takes nothing from others; only a machine that was busy until
// after the time may see messages.
func popsNothingBefore(t *testing.T, c *cell.Cell, queue string, until time.Time) {
	t.Helper()
	early := c.Pop(t, client.PopRequest{Queue: queue, Group: "early", Mode: "all"})
	if now := time.Now(); len(early.Messages) > 0 && now.Before(until) {
		t.Errorf("%v too early: %+v", until.Sub(now), early)
	}
}

// Acceptance line 20.
func TestConfigureDelayedProcessingHidesAMessageUntilItIsOldEnough(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := cell.FreshQueue()
	c.Configure(t, queue, `"options":{"delayedProcessing":2}`)
	pushed := time.Now()
	c.PushNumbered(t, queue, 1)
	popsNothingBefore(t, c, queue, pushed.Add(leastAge))
	batch := c.Pop(t, client.PopRequest{Queue: queue, Wait: 20 * time.Second})
	if age := time.Since(pushed); age < leastAge {
		t.Errorf("delivered after %v", age)
	}
	if diff := cmp.Diff([]string{"0"}, cell.Transactions(batch)); diff != "" {
		t.Error(diff)
	}
}

// Acceptance line 21.
func TestConfigureWindowBufferDeliversTogetherWhatCameTogether(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := cell.FreshQueue()
	c.Configure(t, queue, `"options":{"windowBuffer":2}`)
	pushed := time.Now()
	c.PushNumbered(t, queue, 3)
	popsNothingBefore(t, c, queue, pushed.Add(leastAge))
	batch := c.Pop(t, client.PopRequest{Queue: queue, Batch: 4, Wait: 20 * time.Second})
	if age := time.Since(pushed); age < leastAge {
		t.Errorf("delivered after %v", age)
	}
	if diff := cmp.Diff([]string{"0", "1", "2"}, cell.Transactions(batch)); diff != "" {
		t.Error(diff)
	}
}

func TestConfigureALoweredDelayHoldsForTheNextPop(t *testing.T) {
	t.Parallel()
	c := shared(t)
	for _, option := range []string{"delayedProcessing", "windowBuffer"} {
		t.Run(option, func(t *testing.T) {
			t.Parallel()
			queue := cell.FreshQueue()
			c.Configure(t, queue, `"options":{"`+option+`":3600}`)
			c.PushNumbered(t, queue, 1)
			for _, address := range c.Deliver {
				for group := range 2 { // one pops again at the same process, one at the other
					hidden, err := c.At(t, address).Pop(t.Context(), client.PopRequest{Queue: queue, Group: fmt.Sprint(group), Mode: "all"})
					if err != nil || len(hidden.Messages) > 0 {
						t.Fatalf("%+v %v", hidden, err)
					}
				}
			}
			c.Configure(t, queue, `"options":{"`+option+`":0}`)
			for group, address := range c.Deliver {
				batch, err := c.At(t, address).Pop(t.Context(), client.PopRequest{Queue: queue, Group: fmt.Sprint(group)})
				if err != nil || len(batch.Messages) != 1 {
					t.Errorf("%+v %v", batch, err)
				}
			}
		})
	}
}

func TestConfigureMergesUnlessToldToReplace(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := cell.FreshQueue()
	options := func(s cell.Settings, names ...string) (values []any) {
		for _, name := range names {
			values = append(values, s.Options[name])
		}
		return append(values, s.Namespace, s.Task)
	}
	told := []string{"leaseTime", "retryLimit", "retentionEnabled", "dedupWindowSeconds"}
	// A queue that a push made: it keeps what nobody speaks of. Both ingests see one another's changes.
	c.PushNumbered(t, queue, 1)
	derived := options(c.ConfigureAt(t, c.Ingest[0], queue, `"namespace":null,"task":"","options":{"retryLimit":7}`), told...)
	namespace, task, _ := strings.Cut(queue, ".")
	if diff := cmp.Diff([]any{60.0, 7.0, false, 3600.0, namespace, task}, derived); diff != "" {
		t.Error(diff)
	}
	merged := options(c.ConfigureAt(t, c.Ingest[1], queue, `"task":"other","options":{"retentionEnabled":true,"dedupWindowSeconds":-1}`), told...)
	if diff := cmp.Diff([]any{60.0, 7.0, true, 0.0, namespace, "other"}, merged); diff != "" {
		t.Error(diff)
	}
	restored := options(c.ConfigureAt(t, c.Ingest[0], queue, `"options":{"leaseTime":null,"dedupWindowSeconds":null,"task":null}`), told...)
	if diff := cmp.Diff([]any{300.0, 7.0, true, 3600.0, namespace, ""}, restored); diff != "" {
		t.Error(diff)
	}
	replaced := options(c.ConfigureAt(t, c.Ingest[1], queue, `"mode":"replace","options":{"leaseTime":"5"}`), told...)
	if diff := cmp.Diff([]any{5.0, 3.0, false, 3600.0, "", ""}, replaced); diff != "" {
		t.Error(diff)
	}
}

func TestConfigureRefusesBadValuesByName(t *testing.T) {
	t.Parallel()
	c := shared(t)
	for name, tc := range map[string]struct{ body, answer string }{
		"not JSON":      {`{`, ""},
		"no queue":      {`{"options":{}}`, `{"error":"queue is required"}`},
		"queue of 5":    {`{"queue":5}`, `{"error":"queue is required"}`},
		"mode":          {`{"queue":"q","mode":"add"}`, `{"error":"mode must be \"merge\" or \"replace\", got \"add\""}`},
		"word":          {`{"queue":"q","options":{"leaseTime":"soon"}}`, `{"error":"leaseTime is not an integer"}`},
		"limit of one":  {`{"queue":"q","options":{"deliveryLimit":1}}`, `{"error":"deliveryLimit is neither 0 (off) nor at least 2"}`},
		"sink":          {`{"queue":"q","options":{"retentionSinkHoldMaxSeconds":59}}`, `{"error":"retentionSinkHoldMaxSeconds is not between 60 and 31536000","invalid":true}`},
		"no key, no go": {`{"queue":"q","options":{"encryptionEnabled":true}}`, `{"error":"encryptionEnabled needs a key, and this server has none (QUEEN_ENCRYPTION_KEY)"}`},
	} {
		status, answer := c.Post(t, "/api/v1/configure", tc.body)
		if status != http.StatusBadRequest || tc.answer != "" && string(answer) != tc.answer {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
}

func TestConfigureLeaseTimeIsThatOfPopsWhichNameNone(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := cell.FreshQueue()
	c.Configure(t, queue, `"options":{"leaseTime":1}`)
	c.PushNumbered(t, queue, 1)
	first := c.Pop(t, client.PopRequest{Queue: queue, Group: "g", Mode: "all"})
	again := c.Pop(t, client.PopRequest{Queue: queue, Group: "g", Wait: 20 * time.Second}) // far below the 60 s of a default
	if diff := cmp.Diff(cell.Transactions(first), cell.Transactions(again)); diff != "" || len(again.Messages) != 1 {
		t.Errorf("%v %s", again, diff)
	}
}

func TestConfigureWindowOfZeroRemembersNoTransaction(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := cell.FreshQueue()
	c.Configure(t, queue, `"options":{"dedupWindowSeconds":0}`)
	c.PushNumbered(t, queue, 1)
	c.PushNumbered(t, queue, 1) // fails unless it is queued
	if diff := cmp.Diff([]string{"0", "0"}, cell.Transactions(c.Pop(t, client.PopRequest{Queue: queue}))); diff != "" {
		t.Error(diff)
	}
}

// Acceptance line 40.
func TestConfigureLabelsAreFoundByDiscovery(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue, label := cell.FreshQueue(), cell.FreshQueue()
	c.Configure(t, queue, `"namespace":"`+label+`","task":"t"`)
	c.PushNumbered(t, queue, 1)
	if other := c.Pop(t, client.PopRequest{Namespace: label, Task: "u"}); len(other.Messages) > 0 {
		t.Errorf("%+v", other)
	}
	if diff := cmp.Diff([]string{"0"}, cell.Transactions(c.Pop(t, client.PopRequest{Namespace: label, Task: "t"}))); diff != "" {
		t.Error(diff)
	}
}
