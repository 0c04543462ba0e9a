package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/test/load/internal/payload"
)

func ledger(t *testing.T, groups int) *Ledger {
	t.Helper()
	payloads, err := payload.New(16, 64, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(2, 3, groups, payloads)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// send makes count messages of a producer for a partition.
func send(l *Ledger, producer, partition, count int) (ids []ID) {
	for range count {
		ids = append(ids, l.Next(producer, partition, 7))
	}
	return ids
}

func want(t *testing.T, l *Ledger, drained bool, want ...Judgement) {
	t.Helper()
	if diff := cmp.Diff(want, l.Judge(drained)); diff != "" {
		t.Errorf("judgement (-want +got):\n%s", diff)
	}
}

func TestJudgementOfAnOrderlyHistory(t *testing.T) {
	t.Parallel()
	l := ledger(t, 2)
	a, b, c := send(l, 0, 0, 5), send(l, 1, 0, 3), send(l, 1, 2, 2)
	l.Deliver(0, []ID{a[0], b[0], a[1], b[1], b[2], c[0], c[1], a[2]})
	l.Deliver(0, a[3:])
	want(t, l, false, Judgement{Counts: Counts{Delivered: 10}}, Judgement{Left: 10})
	l.Deliver(1, a)
	l.Deliver(1, b)
	l.Deliver(1, c)
	want(t, l, true, Judgement{Counts: Counts{Delivered: 10}}, Judgement{Counts: Counts{Delivered: 10}})
	if all, doubtful := l.Sent(); all != 10 || doubtful != 0 {
		t.Error(all, doubtful)
	}
}

func TestJudgementOfHistoriesThatBreakAPromise(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		got     func(ids []ID) []ID
		drained bool
		want    Judgement
	}{
		"LostInTheMiddle": {
			got:  func(ids []ID) []ID { return []ID{ids[0], ids[3], ids[4], ids[5]} },
			want: Judgement{Counts: Counts{Delivered: 4}, Lost: 2},
		},
		"LostAtTheEnd": {
			got: func(ids []ID) []ID { return ids[:4] }, drained: true,
			want: Judgement{Counts: Counts{Delivered: 4}, Lost: 2},
		},
		"LostAltogether": {got: func([]ID) []ID { return nil }, drained: true, want: Judgement{Lost: 6}},
		"OutOfOrder": {
			got:  func(ids []ID) []ID { return []ID{ids[0], ids[2], ids[1], ids[3], ids[4], ids[5]} },
			want: Judgement{Counts: Counts{Delivered: 6, Late: 1}},
		},
		"Reversed": {
			got:  func(ids []ID) []ID { return []ID{ids[5], ids[3], ids[4], ids[1], ids[0], ids[2]} },
			want: Judgement{Counts: Counts{Delivered: 6, Late: 5}},
		},
		"Twice": {
			got:  func(ids []ID) []ID { return append(append([]ID{}, ids...), ids[2:]...) },
			want: Judgement{Counts: Counts{Delivered: 6, Duplicates: 4}},
		},
		"LateAndThenTwice": {
			got:  func(ids []ID) []ID { return []ID{ids[0], ids[2], ids[1], ids[1], ids[3], ids[4], ids[5]} },
			want: Judgement{Counts: Counts{Delivered: 6, Late: 1, Duplicates: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := ledger(t, 1)
			l.Deliver(0, test.got(send(l, 1, 2, 6)))
			want(t, l, test.drained, test.want)
			if test.want.Faults() == 0 {
				t.Error("no fault")
			}
		})
	}
}

func TestMessagesOfUnknownFateMayComeOrNot(t *testing.T) {
	t.Parallel()
	l := ledger(t, 2)
	ids := send(l, 0, 1, 4)
	l.Doubt(0, 1, 2)
	ids = append(ids, send(l, 0, 1, 3)...)
	l.Doubt(0, 1, 1)
	l.Deliver(0, ids)
	l.Deliver(1, []ID{ids[0], ids[1], ids[4], ids[5]})
	want(t, l, true, Judgement{Counts: Counts{Delivered: 7}}, Judgement{Counts: Counts{Delivered: 4}})
	if all, doubtful := l.Sent(); all != 7 || doubtful != 3 {
		t.Error(all, doubtful)
	}
}

func TestRecognizeComparesBytes(t *testing.T) {
	t.Parallel()
	l, other := ledger(t, 1), ledger(t, 1)
	id := l.Next(1, 2, 1<<40-1)
	text := l.AppendID(nil, id)
	if len(text) != IDLength {
		t.Fatalf("%d bytes", len(text))
	}
	if got, ok := l.Recognize(0, text, l.Payload(id)); !ok || got != id {
		t.Errorf("%+v, want %+v", got, id)
	}
	altered := append([]byte{}, l.Payload(id)...)
	altered[len(altered)-3] ^= 1
	strangers := [][2][]byte{
		{text, altered},
		{text[1:], l.Payload(id)},
		{append([]byte("zz"), text[2:]...), l.Payload(id)},
		{other.AppendID(nil, id), l.Payload(id)},
		{l.AppendID(nil, ID{Producer: 2}), l.Payload(ID{Producer: 2})},
		{l.AppendID(nil, ID{Partition: 3}), l.Payload(ID{Partition: 3})},
	}
	for i, s := range strangers {
		if got, ok := l.Recognize(0, s[0], s[1]); ok {
			t.Errorf("%d: recognized %+v", i, got)
		}
	}
	want(t, l, false, Judgement{Strange: uint64(len(strangers)), Left: 1})
}

func TestImpossibleLedgersAreRefused(t *testing.T) {
	t.Parallel()
	for _, sizes := range [][3]int{{0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {1<<16 + 1, 1, 1}, {1, 1<<24 + 1, 1}} {
		if _, err := New(sizes[0], sizes[1], sizes[2], nil); err == nil {
			t.Errorf("%v", sizes)
		}
	}
}
