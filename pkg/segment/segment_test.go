package segment_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"queen.internal/pkg/segment"
)

func messages(t *rapid.T) []segment.Message {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) segment.Message {
		m := segment.Message{
			ID:          uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")),
			ProducerSub: rapid.String().Draw(t, "producer"),
			Payload:     rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(t, "payload"),
		}
		m.TransactionID = m.ID.String()
		if rapid.Bool().Draw(t, "own transaction id") {
			m.TransactionID = rapid.String().Draw(t, "transaction id")
		}
		if rapid.Bool().Draw(t, "traced") {
			id := uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "trace"))
			m.TraceID = &id
		}
		return m
	}), 1, 60).Draw(t, "messages")
}

func TestSegmentGivesBackTheMessagesItWasMadeOf(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		msgs := messages(t)
		e := segment.Encode(msgs)
		got, err := segment.Decode(e.Codec, e.RawBytes, e.Count, e.Blob)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(msgs, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestSegmentOfRepetitiveMessagesIsCompressed(t *testing.T) {
	t.Parallel()
	msgs := make([]segment.Message, 100)
	for i := range msgs {
		msgs[i] = segment.Message{ID: uuid.New(), Payload: []byte(`{"text":"` + strings.Repeat("word ", 40) + `"}`)}
	}
	e := segment.Encode(msgs)
	if e.Codec != segment.CodecZstd || len(e.Blob)*3 > e.RawBytes {
		t.Errorf("codec %d, %d bytes of %d", e.Codec, len(e.Blob), e.RawBytes)
	}
}

func TestCutRespectsTheBoundsOfASegment(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.SampledFrom([]int{0, 10, 600_000, 1_100_000}), 0, 12).Draw(t, "sizes")
		many := rapid.SampledFrom([]int{0, 999, 1001, 2500}).Draw(t, "small ones before")
		msgs := make([]segment.Message, many, many+len(sizes))
		for _, n := range sizes {
			msgs = append(msgs, segment.Message{Payload: make([]byte, n)})
		}
		total := 0
		for _, run := range segment.Cut(msgs) {
			size := 0
			for i := range run {
				size += run[i].Size()
			}
			if len(run) == 0 || len(run) > segment.MaxMessages || (len(run) > 1 && size > segment.MaxRawBytes) {
				t.Fatalf("a run of %d messages and %d bytes", len(run), size)
			}
			total += len(run)
		}
		if total != len(msgs) {
			t.Fatalf("%d messages cut into %d", len(msgs), total)
		}
	})
}

func FuzzDecodeNeverPanicsAndReadsOnlyWhatFits(f *testing.F) {
	e := segment.Encode([]segment.Message{{TransactionID: "a", Payload: []byte(`{"n":1}`)}, {ProducerSub: "svc", Payload: []byte("2")}})
	f.Add(e.Codec, e.RawBytes, e.Count, e.Blob)
	e = segment.Encode([]segment.Message{{Payload: []byte(`"` + strings.Repeat("long ", 100) + `"`)}})
	f.Add(e.Codec, e.RawBytes, e.Count, e.Blob)
	f.Add(int16(7), 3, 1, []byte("abc"))
	f.Fuzz(func(t *testing.T, codec int16, rawBytes, count int, blob []byte) {
		rawBytes &= 1<<22 - 1 // sizes come from a column that only the encoder fills
		msgs, err := segment.Decode(codec, rawBytes, count, blob)
		if err != nil {
			if !errors.Is(err, segment.ErrCorrupt) {
				t.Fatalf("unexpected error %v", err)
			}
			return
		}
		size := 0
		for i := range msgs {
			size += len(msgs[i].Payload)
		}
		if len(msgs) != count || size > rawBytes {
			t.Fatalf("%d messages of %d, %d bytes of %d", len(msgs), count, size, rawBytes)
		}
	})
}

func BenchmarkEncode100(b *testing.B) {
	msgs := make([]segment.Message, 100)
	for i := range msgs {
		msgs[i] = segment.Message{ID: uuid.New(), TransactionID: uuid.NewString(), Payload: []byte(`{"text":"` + strings.Repeat("some words ", 22) + `"}`)}
	}
	e := segment.Encode(msgs)
	b.SetBytes(int64(e.RawBytes))
	b.ReportMetric(float64(e.RawBytes)/float64(len(e.Blob)), "ratio")
	for b.Loop() {
		segment.Encode(msgs)
	}
}

func BenchmarkDecode100(b *testing.B) {
	msgs := make([]segment.Message, 100)
	for i := range msgs {
		msgs[i] = segment.Message{ID: uuid.New(), TransactionID: uuid.NewString(), Payload: []byte(`{"text":"` + strings.Repeat("some words ", 22) + `"}`)}
	}
	e := segment.Encode(msgs)
	b.SetBytes(int64(e.RawBytes))
	for b.Loop() {
		if _, err := segment.Decode(e.Codec, e.RawBytes, e.Count, e.Blob); err != nil {
			b.Fatal(err)
		}
	}
}
