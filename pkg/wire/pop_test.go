package wire

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"queen.internal/pkg/queue"
)

var popDefaults = PopDefaults{Timeout: 30 * time.Second, Mode: ModeNew}

func TestParsePop(t *testing.T) {
	t.Parallel()
	base := PopQuery{Batch: 200, Partitions: 1, Timeout: 30 * time.Second, Group: queue.QueueMode, mode: ModeNew}
	tests := map[string]struct {
		query string
		want  func(*PopQuery)
	}{
		"defaults": {"", func(*PopQuery) {}},
		"everything": {"batch=7&partitions=3&wait=true&timeout=1500&autoAck=true&leaseSeconds=9&consumerGroup=g&namespace=n&task=t", func(q *PopQuery) {
			q.Batch, q.Partitions, q.Wait, q.Timeout, q.AutoAck, q.LeaseSeconds, q.Group, q.Namespace, q.Task = 7, 3, true, 1500*time.Millisecond, true, 9, "g", "n", "t"
		}},
		"batch below one":        {"batch=-4", func(q *PopQuery) { q.Batch = 1 }},
		"zero batch":             {"batch=0", func(q *PopQuery) { q.Batch = 1 }},
		"largest batch":          {"batch=2147483647", func(q *PopQuery) { q.Batch = math.MaxInt32 }},
		"no cap of partitions":   {"partitions=-1", func(q *PopQuery) { q.Partitions = 0 }},
		"lease of no length":     {"leaseSeconds=0", func(q *PopQuery) {}},
		"lease below zero":       {"leaseSeconds=-3", func(q *PopQuery) {}},
		"booleans that are off":  {"wait=false&autoAck=false", func(q *PopQuery) {}},
		"no time":                {"timeout=0", func(q *PopQuery) { q.Timeout = 0 }},
		"empty group":            {"consumerGroup=", func(q *PopQuery) {}},
		"escaped group":          {"consumerGroup=a%2Fb+c%26", func(q *PopQuery) { q.Group = "a/b c&" }},
		"unknown names":          {"x=1&batchh=no&&=&wait=true", func(q *PopQuery) { q.Wait = true }},
		"the last counts":        {"batch=1&batch=2", func(q *PopQuery) { q.Batch = 2 }},
		"parameters not offered": {"conflation=true&autopilot=true", func(*PopQuery) {}},
		"mode all":               {"subscriptionMode=all", func(q *PopQuery) { q.mode = ModeAll }},
		"mode new-only":          {"subscriptionMode=new-only", func(q *PopQuery) {}},
		"mode of another kind":   {"subscriptionMode=from_beginning", func(q *PopQuery) { q.mode = ModeAll }},
		"mode in capitals":       {"subscriptionMode=NEW", func(q *PopQuery) { q.mode = ModeAll }},
		"empty mode":             {"subscriptionMode=", func(q *PopQuery) {}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := base
			test.want(&want)
			got, err := ParsePop(test.query, popDefaults)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(PopQuery{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParsePop_BadValuesNameTheParameter(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		"batch":         {"x", "", "1.5", "1e3", "2147483648", " 1", "0x10", "1_0"},
		"partitions":    {"x", "", "-2147483649"},
		"leaseSeconds":  {"x", "", "9999999999"},
		"timeout":       {"x", "", "-1", "1s", "9223372036854775807"},
		"wait":          {"1", "", "yes", "True", "TRUE", "on"},
		"autoAck":       {"0", "", "no"},
		"conflation":    {"1"},
		"autopilot":     {"maybe"},
		"consumerGroup": {"a%00b", "%ff", "%zz", strings.Repeat("g", queue.MaxNameBytes+1)},
		"namespace":     {"a%1fb"},
		"task":          {"%0a"},
	}
	for field, values := range tests {
		for _, value := range values {
			_, err := ParsePop(field+"="+strings.ReplaceAll(value, " ", "%20"), popDefaults)
			var invalid *queue.Error
			if !errors.As(err, &invalid) || invalid.Kind != queue.KindInvalid || invalid.Field != field || !strings.Contains(invalid.Message, field) {
				t.Errorf("%s=%s: %v", field, value, err)
			}
		}
	}
	if _, err := ParsePop("%zz=1", popDefaults); queue.KindOf(err) != queue.KindInvalid {
		t.Errorf("a name with a broken escape: %v", err)
	}
}

func TestPopQuery_Start(t *testing.T) {
	t.Parallel()
	august := time.Date(2026, 8, 1, 10, 0, 0, 0, time.UTC)
	type start struct {
		Mode string
		From time.Time
	}
	tests := map[string]struct{ queue, pinned start }{
		"consumerGroup=g":                                                            {start{"new", time.Time{}}, start{"new", time.Time{}}},
		"consumerGroup=g&subscriptionMode=all":                                       {start{"all", time.Time{}}, start{"all", time.Time{}}},
		"subscriptionMode=new":                                                       {start{"all", time.Time{}}, start{"all", time.Time{}}},
		"subscriptionFrom=now":                                                       {start{"all", time.Time{}}, start{"all", time.Time{}}},
		"consumerGroup=__QUEUE_MODE__":                                               {start{"all", time.Time{}}, start{"all", time.Time{}}},
		"consumerGroup=g&subscriptionFrom=now":                                       {start{"new", time.Time{}}, start{"new", time.Time{}}},
		"consumerGroup=g&subscriptionFrom=":                                          {start{"new", time.Time{}}, start{"new", time.Time{}}},
		"consumerGroup=g&subscriptionFrom=never":                                     {start{"new", time.Time{}}, start{"new", time.Time{}}},
		"consumerGroup=g&subscriptionMode=all&subscriptionFrom=never":                {start{"new", time.Time{}}, start{"all", time.Time{}}},
		"consumerGroup=g&subscriptionMode=all&subscriptionFrom=now":                  {start{"new", time.Time{}}, start{"new", time.Time{}}},
		"consumerGroup=g&subscriptionFrom=2026-08-01T10:00:00Z":                      {start{"new", august}, start{"new", august}},
		"consumerGroup=g&subscriptionMode=all&subscriptionFrom=2026-08-01T10:00:00Z": {start{"all", august}, start{"all", august}},
		"consumerGroup=g&subscriptionFrom=never&subscriptionFrom=2026-08-01":         {start{"new", august.Add(-10 * time.Hour)}, start{"new", august.Add(-10 * time.Hour)}},
	}
	for query, test := range tests {
		q, err := ParsePop(query, popDefaults)
		if err != nil {
			t.Fatal(err)
		}
		for pinned, want := range map[bool]start{false: test.queue, true: test.pinned} {
			var got start
			got.Mode, got.From = q.Start(pinned)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, pinned %t: %s", query, pinned, diff)
			}
		}
	}
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	want := time.Date(2026, 8, 1, 10, 0, 0, 123_000_000, time.UTC)
	for _, text := range []string{
		"2026-08-01T10:00:00.123Z", "2026-08-01T10:00:00.123000000Z", "2026-08-01T12:00:00.123+02:00", "2026-08-01T12:00:00.123 02:00",
		"2026-08-01T12:00:00.123+0200", "2026-08-01T12:00:00.123+02", "2026-08-01T10:00:00.123", "2026-08-01 10:00:00.123",
		"2026-08-01 10:00:00.123Z", "2026-08-01 12:00:00.123+02",
	} {
		if got, ok := parseTime(text); !ok || !got.Equal(want) {
			t.Errorf("%s is %v, %t", text, got, ok)
		}
	}
	for _, text := range []string{"yesterday", "2026-13-01", "1754042400", "0000-01-01", "2026-08-01T10:00:00Z trailing"} {
		if got, ok := parseTime(text); ok {
			t.Errorf("%q is %v, want none", text, got)
		}
	}
}

func FuzzParsePop(f *testing.F) {
	f.Add("batch=7&partitions=3&wait=true&timeout=1500&autoAck=true&leaseSeconds=9&consumerGroup=g")
	f.Add("subscriptionFrom=2026-08-01T10:00:00%2B02:00&subscriptionMode=all")
	f.Add("%zz=&=&batch")
	f.Fuzz(func(t *testing.T, query string) {
		q, err := ParsePop(query, popDefaults)
		if err != nil {
			if queue.KindOf(err) != queue.KindInvalid {
				t.Fatalf("%v is not of kind Invalid", err)
			}
			return
		}
		if q.Batch < 1 || q.Partitions < 0 || q.LeaseSeconds < 0 || q.Timeout < 0 || q.Group == "" {
			t.Fatalf("%q: %+v", query, q)
		}
		if mode, _ := q.Start(false); mode != ModeNew && mode != ModeAll {
			t.Fatalf("%q: mode %q", query, mode)
		}
	})
}

func TestPopResponse(t *testing.T) {
	t.Parallel()
	partition := uuid.MustParse("6f0c2a52-1b6e-4e0e-9f63-8b6e0c5f2d10")
	second := uuid.MustParse("6f0c2a52-1b6e-4e0e-9f63-8b6e0c5f2d11")
	lease := uuid.MustParse("01990a11-0000-7a10-8a10-000000000001")
	id := uuid.MustParse("01990a10-7c1e-7b60-9f10-2f6c0a4b8d11")
	trace := uuid.MustParse("0b9f2a52-1b6e-4e0e-9f63-8b6e0c5f2d10")
	created := time.Date(2026, 8, 1, 12, 0, 0, 123456789, time.FixedZone("CEST", 2*3600))

	var r PopResponse
	r.Begin("billing.invoice", "ledger", lease)
	r.Partition(second, "empty", 1) // its messages are gone: it counts nowhere
	r.Partition(partition, "cust-7", 2)
	r.Message(&PopMessage{ID: id, TransactionID: "inv-55-created", Payload: []byte(`{"inv":55}`), CreatedAt: created})
	r.Message(&PopMessage{
		ID: id, TransactionID: "a\"b\n", TraceID: &trace, ProducerSub: "svc \"x\"", CreatedAt: created.Add(-123456 * time.Microsecond),
		Payload: []byte(" [ 12345678901234567890.10, \"\\u0000\\ud800\\/<&>\" , {\"b\":1,\"a\":1e400} ]\n"),
	})
	r.Partition(second, "é/\"", 1)
	r.Message(&PopMessage{ID: id, TransactionID: "", CreatedAt: created})
	if r.Messages() != 3 {
		t.Errorf("%d messages", r.Messages())
	}
	got := append(append([]byte(nil), r.Bytes()...), '\n')

	r.Begin("", queue.QueueMode, uuid.Nil) // the same buffer, for a pop with autoAck
	r.Partition(second, queue.DefaultPartition, 1)
	r.Message(&PopMessage{ID: id, TransactionID: "t", Payload: []byte("null"), CreatedAt: created})
	got = append(append(got, r.Bytes()...), '\n')
	golden(t, "pop.jsonl", got)

	r.Begin("q", "g", lease)
	r.Partition(second, "p", 1)
	if r.Bytes() != nil || r.Messages() != 0 {
		t.Error("a pop without messages has a body")
	}
}

func BenchmarkPopResponse(b *testing.B) {
	payload := []byte(`{"words":"` + strings.Repeat("lorem ipsum ", 20) + `"}`)
	m := PopMessage{ID: queue.NewID(), TransactionID: queue.NewID().String(), Payload: payload, CreatedAt: time.Now()}
	var r PopResponse
	b.ReportAllocs()
	for b.Loop() {
		r.Begin("billing.invoice", "ledger", m.ID)
		r.Partition(m.ID, "cust-7", 1)
		for range 100 {
			r.Message(&m)
		}
		if len(r.Bytes()) == 0 {
			b.Fatal("empty")
		}
	}
}
