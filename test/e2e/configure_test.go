package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/client"
)

// settings is the answer of a configure as a client reads it.
type settings struct {
	Configured bool           `json:"configured"`
	QueueID    string         `json:"queueId"`
	Queue      string         `json:"queue"`
	Namespace  string         `json:"namespace"`
	Task       string         `json:"task"`
	Options    map[string]any `json:"options"`
}

// configureAt sends what the request adds to the queue's name, such as `"options":{}`.
func (c *cell) configureAt(t *testing.T, address, queue, request string) settings {
	t.Helper()
	body := `{"queue":"` + queue + `"`
	if request != "" {
		body += "," + request
	}
	status, answer := c.do(t, address, http.MethodPost, "/api/v1/configure", body+"}")
	var s settings
	if err := json.Unmarshal(answer, &s); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s (%v)", status, answer, err)
	}
	// Acceptance line 1.
	if !s.Configured || s.Queue != queue || s.QueueID == "" {
		t.Fatalf("%s", answer)
	}
	return s
}

func (c *cell) configure(t *testing.T, queue, request string) settings {
	t.Helper()
	return c.configureAt(t, c.edge, queue, request)
}

// Acceptance line 2.
func TestConfigureEchoesEveryOptionThatWasSent(t *testing.T) {
	t.Parallel()
	c := shared(t)
	const sent = `{"completedRetentionSeconds":11,"deadLetterQueue":true,"delayedProcessing":0,"dlqAfterMaxRetries":false,` +
		`"encryptionEnabled":false,"leaseTime":12,"maxSize":13,"maxWaitTimeSeconds":14,"priority":5,"retentionEnabled":true,` +
		`"retentionSeconds":15,"retryDelay":16,"retryLimit":17,"ttl":18,"windowBuffer":19,"dedupWindowSeconds":20,"minPopWaitTime":21,` +
		`"deliveryLimit":22,"retentionSinkHold":"archive","retentionSinkHoldMaxSeconds":60}`
	var want map[string]any
	if err := json.Unmarshal([]byte(sent), &want); err != nil {
		t.Fatal(err)
	}
	for name, request := range map[string]string{"options": `"options":` + sent, "top level": sent[1 : len(sent)-1]} {
		if diff := cmp.Diff(want, c.configure(t, freshQueue(t), request).Options); diff != "" {
			t.Errorf("%s (-sent +echoed):\n%s", name, diff)
		}
	}
}

// Acceptance line 4.
func TestConfigureWithoutOptionsMakesAUsableQueue(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := freshQueue(t)
	if made := c.configure(t, queue, ""); made.Options["leaseTime"] != 300.0 || made.Namespace != "" || made.Task != "" {
		t.Errorf("%+v", made)
	}
	pushNumbered(t, c, queue, 2)
	batch := c.pop(t, client.PopRequest{Queue: queue, Group: "g", Mode: "all"})
	if diff := cmp.Diff([]string{"0", "1"}, transactions(batch)); diff != "" {
		t.Error(diff)
	}
	c.ackAll(t, "g", batch)
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
			queue := freshQueue(t)
			if made := c.configure(t, queue, `"options":{`+tc.options+`}`); made.Options["retryLimit"] != 0.0 {
				t.Errorf("%+v", made)
			}
			pushNumbered(t, c, queue, 2)
			batch := c.pop(t, client.PopRequest{Queue: queue, Group: "g", Mode: "all", Batch: 2})
			result, err := c.client(t).Ack(t.Context(), "g", client.AckOf(batch.Messages[0], client.NotCompleted))
			if err != nil || !result.Success || result.DeadLettered != tc.dead {
				t.Fatalf("%+v %v", result, err)
			}
			rest := c.pop(t, client.PopRequest{Queue: queue, Group: "g", Batch: 2, Wait: 5 * time.Second})
			if diff := cmp.Diff([]string{"1"}, transactions(rest)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// leastAge is what the two seconds of these options are by our clock, at least: the age is told by the database's.
const leastAge = 1900 * time.Millisecond

// popsNothingBefore pops for a group of its own, so that it takes nothing from others; only a machine that was busy until
// after the time may see messages.
func (c *cell) popsNothingBefore(t *testing.T, queue string, until time.Time) {
	t.Helper()
	early := c.pop(t, client.PopRequest{Queue: queue, Group: "early", Mode: "all"})
	if now := time.Now(); len(early.Messages) > 0 && now.Before(until) {
		t.Errorf("%v too early: %+v", until.Sub(now), early)
	}
}

// Acceptance line 20.
func TestConfigureDelayedProcessingHidesAMessageUntilItIsOldEnough(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := freshQueue(t)
	c.configure(t, queue, `"options":{"delayedProcessing":2}`)
	pushed := time.Now()
	pushNumbered(t, c, queue, 1)
	c.popsNothingBefore(t, queue, pushed.Add(leastAge))
	batch := c.pop(t, client.PopRequest{Queue: queue, Wait: 20 * time.Second})
	if age := time.Since(pushed); age < leastAge {
		t.Errorf("delivered after %v", age)
	}
	if diff := cmp.Diff([]string{"0"}, transactions(batch)); diff != "" {
		t.Error(diff)
	}
}

// Acceptance line 21.
func TestConfigureWindowBufferDeliversTogetherWhatCameTogether(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := freshQueue(t)
	c.configure(t, queue, `"options":{"windowBuffer":2}`)
	pushed := time.Now()
	pushNumbered(t, c, queue, 3)
	c.popsNothingBefore(t, queue, pushed.Add(leastAge))
	batch := c.pop(t, client.PopRequest{Queue: queue, Batch: 4, Wait: 20 * time.Second})
	if age := time.Since(pushed); age < leastAge {
		t.Errorf("delivered after %v", age)
	}
	if diff := cmp.Diff([]string{"0", "1", "2"}, transactions(batch)); diff != "" {
		t.Error(diff)
	}
}

func TestConfigureALoweredDelayHoldsForTheNextPop(t *testing.T) {
	t.Parallel()
	c := shared(t)
	for _, option := range []string{"delayedProcessing", "windowBuffer"} {
		t.Run(option, func(t *testing.T) {
			t.Parallel()
			queue := freshQueue(t)
			c.configure(t, queue, `"options":{"`+option+`":3600}`)
			pushNumbered(t, c, queue, 1)
			for _, address := range c.deliver {
				for group := range 2 { // one pops again at the same process, one at the other
					hidden, err := c.at(t, address).Pop(t.Context(), client.PopRequest{Queue: queue, Group: fmt.Sprint(group), Mode: "all"})
					if err != nil || len(hidden.Messages) > 0 {
						t.Fatalf("%+v %v", hidden, err)
					}
				}
			}
			c.configure(t, queue, `"options":{"`+option+`":0}`)
			for group, address := range c.deliver {
				batch, err := c.at(t, address).Pop(t.Context(), client.PopRequest{Queue: queue, Group: fmt.Sprint(group)})
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
	queue := freshQueue(t)
	options := func(s settings, names ...string) (values []any) {
		for _, name := range names {
			values = append(values, s.Options[name])
		}
		return append(values, s.Namespace, s.Task)
	}
	told := []string{"leaseTime", "retryLimit", "retentionEnabled", "dedupWindowSeconds"}
	// A queue that a push made: it keeps what nobody speaks of. Both ingests see one another's changes.
	pushNumbered(t, c, queue, 1)
	derived := options(c.configureAt(t, c.ingest[0], queue, `"namespace":null,"task":"","options":{"retryLimit":7}`), told...)
	namespace, task := "e2e", queue[len("e2e."):]
	if diff := cmp.Diff([]any{60.0, 7.0, false, 3600.0, namespace, task}, derived); diff != "" {
		t.Error(diff)
	}
	merged := options(c.configureAt(t, c.ingest[1], queue, `"task":"other","options":{"retentionEnabled":true,"dedupWindowSeconds":-1}`), told...)
	if diff := cmp.Diff([]any{60.0, 7.0, true, 0.0, namespace, "other"}, merged); diff != "" {
		t.Error(diff)
	}
	restored := options(c.configureAt(t, c.ingest[0], queue, `"options":{"leaseTime":null,"dedupWindowSeconds":null,"task":null}`), told...)
	if diff := cmp.Diff([]any{300.0, 7.0, true, 3600.0, namespace, ""}, restored); diff != "" {
		t.Error(diff)
	}
	replaced := options(c.configureAt(t, c.ingest[1], queue, `"mode":"replace","options":{"leaseTime":"5"}`), told...)
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
		status, answer := c.post(t, "/api/v1/configure", tc.body)
		if status != http.StatusBadRequest || tc.answer != "" && string(answer) != tc.answer {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
}

func TestConfigureLeaseTimeIsThatOfPopsWhichNameNone(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := freshQueue(t)
	c.configure(t, queue, `"options":{"leaseTime":1}`)
	pushNumbered(t, c, queue, 1)
	first := c.pop(t, client.PopRequest{Queue: queue, Group: "g", Mode: "all"})
	again := c.pop(t, client.PopRequest{Queue: queue, Group: "g", Wait: 20 * time.Second}) // far below the 60 s of a default
	if diff := cmp.Diff(transactions(first), transactions(again)); diff != "" || len(again.Messages) != 1 {
		t.Errorf("%v %s", again, diff)
	}
}

func TestConfigureWindowOfZeroRemembersNoTransaction(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := freshQueue(t)
	c.configure(t, queue, `"options":{"dedupWindowSeconds":0}`)
	pushNumbered(t, c, queue, 1)
	pushNumbered(t, c, queue, 1) // fails unless it is queued
	if diff := cmp.Diff([]string{"0", "0"}, transactions(c.pop(t, client.PopRequest{Queue: queue}))); diff != "" {
		t.Error(diff)
	}
}

// Acceptance line 40.
func TestConfigureLabelsAreFoundByDiscovery(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue, label := freshQueue(t), freshQueue(t)
	c.configure(t, queue, `"namespace":"`+label+`","task":"t"`)
	pushNumbered(t, c, queue, 1)
	if other := c.pop(t, client.PopRequest{Namespace: label, Task: "u"}); len(other.Messages) > 0 {
		t.Errorf("%+v", other)
	}
	if diff := cmp.Diff([]string{"0"}, transactions(c.pop(t, client.PopRequest{Namespace: label, Task: "t"}))); diff != "" {
		t.Error(diff)
	}
}
