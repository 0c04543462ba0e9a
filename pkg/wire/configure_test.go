package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"queen.internal/pkg/queue"
)

func TestScanConfigure(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body string
		want queue.Options
	}{
		"no options keep everything": {`{"queue":"q"}`, queue.Options{}},
		"every option": {
			`{"queue":"q","namespace":"n","task":"t","options":{"priority":1,"leaseTime":2,"retryLimit":3,"retryDelay":4,"maxSize":5,
			 "ttl":6,"deadLetterQueue":false,"dlqAfterMaxRetries":true,"delayedProcessing":7,"windowBuffer":8,"retentionSeconds":9,
			 "completedRetentionSeconds":10,"retentionEnabled":true,"encryptionEnabled":false,"maxWaitTimeSeconds":11,
			 "minPopWaitTime":12,"dedupWindowSeconds":13,"retentionSinkHold":"sink.A_1-b","retentionSinkHoldMaxSeconds":60,
			 "deliveryLimit":2,"redeliveryDelaySeconds":86400,"spool":false}}`,
			queue.Options{
				Namespace: new("n"), Task: new("t"), Priority: new(int32(1)), LeaseSeconds: new(int32(2)), RetryLimit: new(int32(3)),
				RetryDelayMillis: new(int32(4)), MaxSize: new(int32(5)), TTLSeconds: new(int32(6)), DeadLetterQueue: new(false),
				DeadLetterAfterRetries: new(true), DelayedProcessingSeconds: new(int32(7)), WindowBufferSeconds: new(int32(8)),
				RetentionSeconds: new(int32(9)), CompletedRetentionSeconds: new(int32(10)), RetentionEnabled: new(true),
				EncryptionEnabled: new(false), MaxWaitSeconds: new(int32(11)), MinPopWaitMillis: new(int32(12)),
				DedupWindowSeconds: new(int32(13)), RetentionSinkHold: new("sink.A_1-b"), RetentionSinkHoldMaxSeconds: new(int32(60)),
				DeliveryLimit: new(int32(2)), RedeliveryDelaySeconds: new(int32(86400)), Spool: new(false),
			},
		},
		"options at top level":             {`{"leaseTime":5,"queue":"q","namespace":"n"}`, queue.Options{LeaseSeconds: new(int32(5)), Namespace: new("n")}},
		"a null options object is none":    {`{"queue":"q","options":null,"ttl":5}`, queue.Options{TTLSeconds: new(int32(5))}},
		"an empty list of options is none": {`{"queue":"q","options":[],"ttl":5}`, queue.Options{TTLSeconds: new(int32(5))}},
		"beside an object only labels count": {
			`{"queue":"q","options":{},"ttl":5,"task":"t"}`, queue.Options{Task: new("t")},
		},
		"a label in the options goes before": {
			`{"queue":"q","options":{"namespace":"in","task":null},"namespace":"out","task":"out"}`,
			queue.Options{Namespace: new("in"), Task: new("")},
		},
		"an empty label in the options is set":  {`{"queue":"q","options":{"namespace":""}}`, queue.Options{Namespace: new("")}},
		"a top label that says nothing is none": {`{"queue":"q","namespace":null,"task":""}`, queue.Options{}},
		"a top label that is no text is none":   {`{"queue":"q","namespace":7,"task":{}}`, queue.Options{}},
		"null is the default": {
			`{"queue":"q","options":{"leaseTime":null,"dlqAfterMaxRetries":null,"retentionSinkHold":null,"dedupWindowSeconds":null}}`,
			queue.Options{LeaseSeconds: new(int32(300)), DeadLetterAfterRetries: new(true), RetentionSinkHold: new(""), DedupWindowSeconds: new(int32(3600))},
		},
		"merge is the mode of every day": {`{"queue":"q","mode":"merge","ttl":1}`, queue.Options{TTLSeconds: new(int32(1))}},
		"a null mode is none":            {`{"queue":"q","mode":null,"ttl":1}`, queue.Options{TTLSeconds: new(int32(1))}},
		"a mode in the options is none":  {`{"queue":"q","options":{"mode":"x","ttl":1}}`, queue.Options{TTLSeconds: new(int32(1))}},
		"replace sets what is absent": {`{"queue":"q","mode":"replace","task":"t","options":{"leaseTime":7}}`, func() queue.Options {
			o := queue.DefaultOptions()
			o.LeaseSeconds, o.Task = new(int32(7)), new("t")
			return o
		}()},
		"numbers in quotes":          {`{"queue":"q","leaseTime":"120","priority":" -3 ","maxSize":-0}`, queue.Options{LeaseSeconds: new(int32(120)), Priority: new(int32(-3)), MaxSize: new(int32(0))}},
		"booleans in other clothes":  {`{"queue":"q","deadLetterQueue":"FALSE","dlqAfterMaxRetries":0,"retentionEnabled":"on"}`, queue.Options{DeadLetterQueue: new(false), DeadLetterAfterRetries: new(false), RetentionEnabled: new(true)}},
		"bounds are not for most":    {`{"queue":"q","leaseTime":-1,"retryLimit":-2147483648,"ttl":2147483647}`, queue.Options{LeaseSeconds: new(int32(-1)), RetryLimit: new(int32(-2147483648)), TTLSeconds: new(int32(2147483647))}},
		"retryLimit may be 0":        {`{"queue":"q","retryLimit":0}`, queue.Options{RetryLimit: new(int32(0))}},
		"a negative window is off":   {`{"queue":"q","dedupWindowSeconds":-5}`, queue.Options{DedupWindowSeconds: new(int32(0))}},
		"a negative wait is none":    {`{"queue":"q","minPopWaitTime":-5}`, queue.Options{MinPopWaitMillis: new(int32(0))}},
		"a long wait is a minute":    {`{"queue":"q","minPopWaitTime":60001}`, queue.Options{MinPopWaitMillis: new(int32(60000))}},
		"the delivery limit is off":  {`{"queue":"q","deliveryLimit":0}`, queue.Options{DeliveryLimit: new(int32(0))}},
		"unknown keys of any shape":  {`{"queue":"q","x":{"leaseTime":1},"options":{"y":[{}],"LeaseTime":1,"ttl":2}} `, queue.Options{TTLSeconds: new(int32(2))}},
		"the last of a key counts":   {`{"queue":7,"queue":"q","options":{"ttl":"x"},"options":{"ttl":"y","ttl":2}}`, queue.Options{TTLSeconds: new(int32(2))}},
		"keys and values escaped":    {`{"\u0071ueue":"\u0071","options":{"\u0074tl":"\u0032","task":"a\/b\u0026"}}`, queue.Options{TTLSeconds: new(int32(2)), Task: new("a/b&")}},
		"both ends of the sink time": {`{"queue":"q","retentionSinkHoldMaxSeconds":31536000}`, queue.Options{RetentionSinkHoldMaxSeconds: new(int32(31536000))}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ScanConfigure([]byte(test.body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(ConfigureRequest{"q", test.want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestScanConfigure_AnEmptyQueueNameIsLegal(t *testing.T) {
	t.Parallel()
	got, err := ScanConfigure([]byte(`{"queue":""}`))
	if err != nil || got.Queue != "" {
		t.Errorf("%+v %v", got, err)
	}
}

func TestScanConfigure_BadBodies(t *testing.T) {
	t.Parallel()
	option := func(name, value string) string { return `{"queue":"q","options":{"` + name + `":` + value + `}}` }
	tests := map[string]struct {
		body, field, text string // text is the whole message, or with … its beginning
	}{
		"empty":                      {``, "", "bad body: …"},
		"no JSON":                    {`nope`, "", "bad body: …"},
		"cut off":                    {`{"queue":"q"`, "", "bad body: …"},
		"cut off in options":         {`{"queue":"q","options":{"ttl":`, "", "bad body: …"},
		"more follows":               {`{"queue":"q"} x`, "", "bad body: …"},
		"not UTF-8":                  {"{\"queue\":\"\xff\"}", "", "bad body: not valid UTF-8 …"},
		"too deep":                   {`{"queue":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`, "", "bad body: …"},
		"not an object":              {`[{"queue":"q"}]`, "queue", "queue is required"},
		"null":                       {`null`, "queue", "queue is required"},
		"no queue":                   {`{"options":{"queue":"q"}}`, "queue", "queue is required"},
		"null queue":                 {`{"queue":null}`, "queue", "queue is required"},
		"number for a queue":         {`{"queue":7}`, "queue", "queue is required"},
		"control in a queue":         {`{"queue":"a\u001fb"}`, "queue", "queue contains a control character"},
		"half a queue":               {`{"queue":"\ud800"}`, "queue", "queue contains half of a surrogate pair"},
		"long queue":                 {`{"queue":"` + strings.Repeat("q", 2049) + `"}`, "queue", "queue is 2049 bytes long, at most 2048 are allowed"},
		"long namespace":             {option("namespace", `"`+strings.Repeat("n", 513)+`"`), "namespace", "namespace is 513 bytes long, at most 512 are allowed"},
		"control in a task":          {`{"queue":"q","task":"a\nb"}`, "task", "task contains a control character"},
		"half a namespace":           {`{"queue":"q","namespace":"\udc00"}`, "namespace", "namespace contains half of a surrogate pair"},
		"number for a task":          {option("task", `7`), "task", "task is not a string"},
		"another mode":               {`{"queue":"q","mode":"Merge"}`, "mode", `mode must be "merge" or "replace", got "Merge"`},
		"empty mode":                 {`{"queue":"q","mode":""}`, "mode", `mode must be "merge" or "replace", got ""`},
		"mode of another type":       {`{"queue":"q","mode":true}`, "mode", `mode must be "merge" or "replace", got true`},
		"endless mode":               {`{"queue":"q","mode":"` + strings.Repeat("ä", 99) + `"}`, "mode", `mode must be "merge" or "replace", got "` + strings.Repeat("ä", 24) + "…"},
		"word for a number":          {option("leaseTime", `"soon"`), "leaseTime", "leaseTime is not an integer"},
		"fraction":                   {option("leaseTime", `1.5`), "leaseTime", "leaseTime is not an integer"},
		"empty text":                 {option("leaseTime", `""`), "leaseTime", "leaseTime is not an integer"},
		"list for a number":          {option("ttl", `[1]`), "ttl", "ttl is not an integer"},
		"boolean for a number":       {option("maxSize", `true`), "maxSize", "maxSize is not an integer"},
		"half a number":              {option("maxSize", `"\ud800"`), "maxSize", "maxSize is not an integer"},
		"number too large":           {option("priority", `2147483648`), "priority", "priority is not between -2147483648 and 2147483647"},
		"number in quotes too large": {option("priority", `"-2147483649"`), "priority", "priority is not between -2147483648 and 2147483647"},
		"word for a boolean":         {option("deadLetterQueue", `"maybe"`), "deadLetterQueue", "deadLetterQueue is neither true nor false"},
		"two for a boolean":          {option("retentionEnabled", `2`), "retentionEnabled", "retentionEnabled is neither true nor false"},
		"object for a boolean":       {option("retentionEnabled", `{}`), "retentionEnabled", "retentionEnabled is neither true nor false"},
		"limit of one":               {option("deliveryLimit", `1`), "deliveryLimit", "deliveryLimit is neither 0 (off) nor at least 2"},
		"negative delay":             {option("redeliveryDelaySeconds", `-1`), "redeliveryDelaySeconds", "redeliveryDelaySeconds is not between 0 and 86400"},
		"delay of over a day":        {option("redeliveryDelaySeconds", `86401`), "redeliveryDelaySeconds", "redeliveryDelaySeconds is not between 0 and 86400"},
		"negative limit":             {option("deliveryLimit", `-2`), "deliveryLimit", "deliveryLimit is neither 0 (off) nor at least 2"},
		"sink name":                  {option("retentionSinkHold", `"a b"`), "retentionSinkHold", "retentionSinkHold is not made of …"},
		"sink name with a line end":  {option("retentionSinkHold", `"a\n"`), "retentionSinkHold", "retentionSinkHold is not made of …"},
		"long sink name":             {option("retentionSinkHold", `"`+strings.Repeat("s", 65)+`"`), "retentionSinkHold", "retentionSinkHold is not made of …"},
		"short sink time":            {option("retentionSinkHoldMaxSeconds", `59`), "retentionSinkHoldMaxSeconds", "retentionSinkHoldMaxSeconds is not between 60 and 31536000"},
		"long sink time":             {option("retentionSinkHoldMaxSeconds", `31536001`), "retentionSinkHoldMaxSeconds", "retentionSinkHoldMaxSeconds is not between 60 and 31536000"},
		"a fault at top level":       {`{"queue":"q","windowBuffer":"x"}`, "windowBuffer", "windowBuffer is not an integer"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ScanConfigure([]byte(test.body))
			known, ok := err.(*queue.Error)
			if !ok || known.Kind != queue.KindInvalid || known.Field != test.field {
				t.Fatalf("got %#v", err)
			}
			beginning, cut := strings.CutSuffix(test.text, " …")
			if cut && !strings.HasPrefix(known.Message, beginning) || !cut && known.Message != test.text {
				t.Errorf("%q, want %q", known.Message, test.text)
			}
		})
	}
}

func TestScanConfigure_EveryDefaultSettlesAndIsTold(t *testing.T) {
	t.Parallel()
	defaults := queue.DefaultOptions()
	if err := defaults.Settle(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(queue.DefaultOptions(), defaults); diff != "" {
		t.Errorf("settling changes the defaults: %s", diff)
	}
	AppendConfigured(nil, &Configured{Options: defaults}) // would panic at an option without one
}

func TestAppendConfigured(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("0c0e4a0e-6a4e-4c1b-9a35-1f1f0a9f7f11")
	other := queue.DefaultOptions()
	other.Namespace, other.Task, other.RetentionSinkHold = new("n"), new("a\"b\\c é"), new("sink")
	other.LeaseSeconds, other.Priority, other.DeadLetterQueue, other.EncryptionEnabled = new(int32(-1)), new(int32(2147483647)), new(false), new(true)
	got := AppendConfigured(nil, &Configured{ID: id, Queue: "q", Options: queue.DefaultOptions()})
	got = append(got, '\n')
	got = AppendConfigured(got, &Configured{ID: id, Queue: "q/\u2028\"", Options: other})
	got = append(got, '\n')
	fault, ok := AppendConfigureFault(nil, queue.Invalid("retentionSinkHold", `retentionSinkHold is "odd"`))
	if !ok {
		t.Error("no body for a sink that is odd")
	}
	got = append(append(got, fault...), '\n')
	golden(t, "configure.jsonl", got)
	for line := range strings.Lines(string(got)) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
}

func TestAppendConfigureFault_LeavesOtherErrorsAlone(t *testing.T) {
	t.Parallel()
	for _, err := range []error{queue.Invalid("leaseTime", "bad"), queue.Unavailable("down", 0, nil), nil} {
		if body, ok := AppendConfigureFault([]byte("x"), err); ok || string(body) != "x" {
			t.Errorf("%v: %s %v", err, body, ok)
		}
	}
}

// FuzzScanConfigure compares the scanner with the standard decoder on what is JSON, and lets the answer to an accepted
// body be the next request, which must mean the same.
func FuzzScanConfigure(f *testing.F) {
	for _, seed := range []string{
		`{"queue":"q","namespace":"n","task":null,"options":{"leaseTime":"120","deadLetterQueue":"off","namespace":null}}`,
		`{"queue":"","mode":"replace","minPopWaitTime":99999,"dedupWindowSeconds":-1,"retentionSinkHold":"a.b"}`,
		`{"queue":"\ud83d\ude00","options":[],"retryLimit":0} `,
		`{"queue":"q","options":{"deliveryLimit":1,"deliveryLimit":2,"x":{"y":[]}}}`,
		`{"queue":"q","ttl":1e3}`, `{"queue":"q","task":"\ud800"}`, "{\"queue\":\"\x80\"}", `[[[]]]`, `{"queue":tru`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		first, err := ScanConfigure(body)
		if err != nil {
			known, ok := err.(*queue.Error)
			if !ok || known.Kind != queue.KindInvalid || known.Message == "" {
				t.Fatalf("a bad body is told by %#v", err)
			}
			broken := strings.HasPrefix(known.Message, "bad body: ")
			if json.Valid(body) == broken && depth(body) <= MaxDepth && !strings.Contains(known.Message, "UTF-8") {
				t.Fatalf("JSON is %v, the error is %q", json.Valid(body), known.Message)
			}
			return
		}
		if !json.Valid(body) {
			t.Fatalf("accepted: %s", body)
		}
		inForce := over(queue.DefaultOptions(), first.Change)
		answer := AppendConfigured(nil, &Configured{Queue: first.Queue, Options: inForce})
		var told map[string]json.RawMessage
		if err := json.Unmarshal(answer, &told); err != nil {
			t.Fatalf("%v in %s", err, answer)
		}
		second, err := ScanConfigure(answer)
		if err != nil {
			t.Fatalf("%v in %s", err, answer)
		}
		if diff := cmp.Diff(ConfigureRequest{first.Queue, inForce}, ConfigureRequest{second.Queue, over(queue.DefaultOptions(), second.Change)}); diff != "" {
			t.Fatal(diff)
		}
	})
}

// over is base with a change made to it.
func over(base, change queue.Options) queue.Options {
	for _, option := range optionKeys {
		set(option.at(&base), option.at(&change))
	}
	for _, label := range labelKeys {
		set(label.at(&base), label.at(&change))
	}
	return base
}

func set(at, change any) {
	switch at := at.(type) {
	case **int32:
		if c := *change.(**int32); c != nil {
			*at = c
		}
	case **bool:
		if c := *change.(**bool); c != nil {
			*at = c
		}
	case **string:
		if c := *change.(**string); c != nil {
			*at = c
		}
	}
}
