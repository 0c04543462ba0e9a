package record

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/seal"
	"queen.internal/pkg/segment"
	"queen.internal/services/ingest/internal/spool"
	"queen.internal/services/ingest/internal/spool/frame"
)

var spoolID = uuid.MustParse("0198c1d2-0000-7000-8000-00000000000a")

func itemOf(e spool.Entry) *spool.Item {
	return &spool.Item{Record: frame.Record{Sequence: 1, Version: e.Version, Flags: e.Flags, Body: e.Body}}
}

func sample(messages int) *Record {
	r := &Record{
		Group: appendlog.Group{Key: appendlog.Key{Tenant: queue.DefaultTenant, Queue: "orders", Partition: "eu"}},
		At:    time.UnixMilli(1_790_000_000_123), Tag: -5, Attempted: true,
	}
	for i := range messages {
		r.Messages = append(r.Messages, segment.Message{ID: queue.NewID(), TransactionID: fmt.Sprint("t", i), ProducerSub: "svc", Payload: []byte(`{"n":9007199254740993}`)})
	}
	return r
}

func keys(t testing.TB, digits string) *seal.Keys {
	t.Helper()
	k, err := seal.NewKeys(strings.Repeat(digits, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	t.Parallel()
	key := keys(t, "a1")
	for _, messages := range []int{1, 2, 999, 1001, 2500} {
		for _, payload := range []int{1, 100, 3 << 20} {
			r := sample(messages)
			r.Sealed, r.Attempted = messages == 1, payload == 1
			r.Messages[0].Payload = bytes.Repeat([]byte("1"), payload)
			for _, k := range []*seal.Keys{nil, key} {
				got, err := Decode(itemOf(Encode(r, k, spoolID)), k, spoolID)
				if err != nil || !reflect.DeepEqual(r, got) {
					t.Errorf("%d messages, payload of %d bytes: differs, %v", messages, payload, err)
				}
			}
		}
	}
}

func TestNamesOfAnyKindAreKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := sample(1)
		r.Key.Queue, r.Key.Partition = rapid.String().Draw(rt, "queue"), rapid.String().Draw(rt, "partition")
		r.Messages[0].TransactionID = rapid.String().Draw(rt, "transaction")
		got, err := Decode(itemOf(Encode(r, nil, spoolID)), nil, spoolID)
		if err != nil || !reflect.DeepEqual(r, got) {
			rt.Errorf("%+v, %v", got, err)
		}
	})
}

func TestASealedRecordTellsNothingAndOpensAtItsPlaceOnly(t *testing.T) {
	t.Parallel()
	r, key := sample(1), keys(t, "a1")
	e := Encode(r, key, spoolID)
	for _, text := range []string{"orders", "eu", "9007199254740993", "t0"} {
		if bytes.Contains(e.Body, []byte(text)) {
			t.Errorf("%q is readable", text)
		}
	}
	for name, open := range map[string]func() (*Record, error){
		"without a key":    func() (*Record, error) { return Decode(itemOf(e), nil, spoolID) },
		"with another key": func() (*Record, error) { return Decode(itemOf(e), keys(t, "b2"), spoolID) },
		"in another spool": func() (*Record, error) { return Decode(itemOf(e), key, uuid.New()) },
	} {
		if _, err := open(); !errors.Is(err, ErrKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRecordsOfOtherVersionsAreTold(t *testing.T) {
	t.Parallel()
	e := Encode(sample(1), nil, spoolID)
	for name, change := range map[string]func(e *spool.Entry){
		"a version to come": func(e *spool.Entry) { e.Version = Version + 1 },
		"none":              func(e *spool.Entry) { e.Version = 0 },
		"a flag":            func(e *spool.Entry) { e.Flags = 2 },
		"a flag inside":     func(e *spool.Entry) { e.Body = append([]byte{128}, e.Body[1:]...) },
	} {
		changed := e
		change(&changed)
		if _, err := Decode(itemOf(changed), nil, spoolID); !errors.Is(err, ErrVersion) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := range e.Body {
		if _, err := Decode(itemOf(spool.Entry{Version: 1, Body: e.Body[:n]}), nil, spoolID); !errors.Is(err, ErrForm) {
			t.Errorf("%d bytes of %d: %v", n, len(e.Body), err)
		}
	}
	if _, err := Decode(itemOf(spool.Entry{Version: 1, Body: append(bytes.Clone(e.Body), 0)}), nil, spoolID); !errors.Is(err, ErrForm) {
		t.Errorf("a byte too many: %v", err)
	}
}

// FuzzDecode: no body makes Decode panic, and what it takes it writes again in the same way.
func FuzzDecode(f *testing.F) {
	f.Add(Encode(sample(2), nil, spoolID).Body)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := Decode(itemOf(spool.Entry{Version: Version, Body: body}), nil, spoolID)
		if err != nil {
			return
		}
		again, err := Decode(itemOf(Encode(r, nil, spoolID)), nil, spoolID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, again); diff != "" {
			t.Fatal(diff)
		}
	})
}
