package mesh

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"queen.internal/pkg/queue"
)

var tenants = []uuid.UUID{queue.DefaultTenant, uuid.MustParse("0198c1d2-0000-7000-8000-000000000009")}

// sentHints is the message that carries these cursors of a queue; those that found no room stay in cursors.
func sentHints(seq uint64, key queueKey, cursors map[cursorKey]said) []byte {
	h := header{kind: kindHints, boot: 7, bucket: bucketOf(key.tenant, key.queue), seq: seq}
	return appendCursors(appendHeader(nil, h), key, cursors)
}

func receivedHints(t *testing.T, data []byte) []Hint {
	t.Helper()
	h, body, err := readHeader(data)
	if err != nil {
		t.Fatal(err)
	}
	hints, err := readHints(body, h.bucket, nil)
	if err != nil {
		t.Fatal(err)
	}
	return hints
}

func TestHintsSurviveTheWire(t *testing.T) {
	t.Parallel()
	key := queueKey{tenants[1], "Ünïcode/queue"}
	got := receivedHints(t, sentHints(1, key, map[cursorKey]said{
		{partition: 0}: {offset: -1}, {partition: 1 << 62, group: ""}: {offset: 1 << 62},
		{partition: 5, group: "billing"}: {news: Leased, lease: 90 * time.Second}, {partition: 6, group: "billing"}: {news: Declined, offset: 7},
	}))
	slices.SortFunc(got, func(a, b Hint) int { return int(a.Partition - b.Partition) })
	want := []Hint{
		{Tenant: tenants[1], Queue: key.queue, Partition: 0, Offset: -1},
		{Tenant: tenants[1], Queue: key.queue, Partition: 5, Group: "billing", News: Leased, Lease: 90 * time.Second},
		{Tenant: tenants[1], Queue: key.queue, Partition: 6, Group: "billing", News: Declined, Offset: 7},
		{Tenant: tenants[1], Queue: key.queue, Partition: 1 << 62, Offset: 1 << 62},
	}
	slices.SortFunc(want, func(a, b Hint) int { return int(a.Partition - b.Partition) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hints (-want +got):\n%s", diff)
	}
}

func TestHintsOfOneQueueTakeAsManyMessagesAsTheyNeed(t *testing.T) {
	t.Parallel()
	key := queueKey{tenants[0], strings.Repeat("q", queue.MaxNameBytes)}
	cursors := map[cursorKey]said{}
	for i := range int64(5000) {
		cursors[cursorKey{i + 1, strings.Repeat("g", 100)}] = said{offset: i}
	}
	seen := map[int64]int64{}
	messages := uint64(0)
	for len(cursors) > 0 {
		messages++
		data := sentHints(messages, key, cursors)
		if len(data) > maxFrame+3*queue.MaxNameBytes {
			t.Fatalf("a message has %d bytes", len(data))
		}
		for _, h := range receivedHints(t, data) {
			seen[h.Partition] = h.Offset
		}
	}
	if len(seen) != 5000 || seen[5000] != 4999 || messages < 10 {
		t.Errorf("%d hints in %d messages, the last offset of partition 5000 is %d", len(seen), messages, seen[5000])
	}
}

func TestHeartbeatsSurviveTheWire(t *testing.T) {
	t.Parallel()
	want := &beat{
		ID: "a-ingest", Role: "ingest", Address: "h:1", Version: "v", Schema: "s", Pool: 6, Timeline: 3, Started: 9, Leaving: true,
		Switches: []Switch{{Name: PopMaintenance, On: true, Version: 4}},
	}
	want.sequence[0], want.sequence[255], want.sequence[configBucket] = 1, 1<<40, 300
	want.watches.add(255)
	data, err := appendBeat(appendHeader(nil, header{kind: kindBeat, boot: 7}), want)
	if err != nil {
		t.Fatal(err)
	}
	h, body, err := readHeader(data)
	if err != nil || h.kind != kindBeat || h.boot != 7 {
		t.Fatalf("header %+v, %v", h, err)
	}
	got, err := readBeat(body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(beat{})); diff != "" {
		t.Errorf("heartbeat (-want +got):\n%s", diff)
	}
}

func TestMessagesOfAnotherVersionOrShapeAreRefused(t *testing.T) {
	t.Parallel()
	key := queueKey{tenants[0], "orders"}
	good := sentHints(1, key, map[cursorKey]said{{partition: 1}: {offset: 2}})
	for name, spoil := range map[string]func([]byte) []byte{
		"nothing":         func([]byte) []byte { return nil },
		"another version": func(b []byte) []byte { b[0] = 2; return b },
		"unknown kind":    func(b []byte) []byte { b[1] = 'x'; return b },
		"cut short":       func(b []byte) []byte { return b[:len(b)-1] },
		"another bucket":  func(b []byte) []byte { b[10] ^= 1; return b },
		"too much":        func(b []byte) []byte { return append(b, 1) },
	} {
		data := spoil(slices.Clone(good))
		h, body, err := readHeader(data)
		if err == nil {
			_, err = readHints(body, h.bucket, nil)
		}
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// FuzzMessages feeds what a peer could send; nothing may panic, and what is taken must be what could be sent.
func FuzzMessages(f *testing.F) {
	f.Add(sentHints(1, queueKey{tenants[0], "orders"}, map[cursorKey]said{{partition: 1, group: "g"}: {news: Leased, offset: 2, lease: time.Second}, {partition: 3}: {offset: -1}}))
	f.Add(appendConfig(appendHeader(nil, header{kind: kindConfig, boot: 7, bucket: configBucket, seq: 1}), queueKey{tenants[1], "q"}, true))
	b := &beat{ID: "x"}
	if data, err := appendBeat(appendHeader(nil, header{kind: kindBeat, boot: 7}), b); err == nil {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, body, err := readHeader(data)
		if err != nil {
			return
		}
		switch h.kind {
		case kindHints:
			hints, err := readHints(body, h.bucket, nil)
			if err != nil {
				return
			}
			if len(hints) > len(data) {
				t.Errorf("%d bytes made %d hints", len(data), len(hints))
			}
			for _, hint := range hints {
				if queue.CheckName("queue", hint.Queue) != nil && len(hint.Queue) > queue.MaxNameBytes {
					t.Errorf("queue %q", hint.Queue)
				}
			}
		case kindConfig:
			_, _ = readConfigs(body) // what it takes is checked by the round trip
		case kindBeat:
			_, _ = readBeat(body)
		}
	})
}
