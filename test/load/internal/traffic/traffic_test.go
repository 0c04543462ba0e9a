package traffic

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"queen.internal/test/load/internal/ledger"
	"queen.internal/test/load/internal/payload"
	"queen.internal/test/load/internal/turn"
)

func newLedger(t *testing.T) *ledger.Ledger {
	t.Helper()
	payloads, err := payload.New(8, 40, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	l, err := ledger.New(2, 4, 1, payloads)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestScheduleDoesNotWaitForThoseWhoAreLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := newSchedule(100, 2, 1) // each of two workers 50 times a second, this one 10 ms after the other
		var due []time.Duration
		for i := range 5 {
			at, ok := s.next(t.Context())
			if !ok {
				t.Fatal("ended")
			}
			due = append(due, at.Sub(start))
			if i == 1 {
				time.Sleep(50 * time.Millisecond) // an answer that was slow
			}
		}
		if got := fmt.Sprint(due); got != "[10ms 30ms 50ms 70ms 90ms]" || time.Since(start) != 90*time.Millisecond {
			t.Errorf("due at %s, the last one sent after %v", got, time.Since(start))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, ok := s.next(ctx); ok {
			t.Error("goes on after the end")
		}
	})
}

func TestProducersShareALimit(t *testing.T) {
	t.Parallel()
	p := Producers{Target: Target{Ingest: []string{"localhost:1"}}, Ledger: newLedger(t), Count: 2, Batch: 10}
	if w := p.worker(0, turn.NewMeter(), nil); w.take() != 10 {
		t.Error("without a limit every push is full")
	}
	var left atomic.Int64
	left.Store(25)
	one, two := p.worker(0, turn.NewMeter(), &left), p.worker(1, turn.NewMeter(), &left)
	if got := [5]int{one.take(), two.take(), one.take(), two.take(), one.take()}; got != [5]int{10, 10, 5, 0, 0} {
		t.Error(got)
	}
	p.Count = 3
	if err := p.Produce(t.Context(), turn.NewMeter()); err == nil {
		t.Error("more producers than the ledger has room for")
	}
}

func TestPartitionNames(t *testing.T) {
	t.Parallel()
	for number, want := range map[uint32]string{0: "p0000000", 7: "p0000007", 1234567: "p1234567", 16777215: "p6777215"} {
		if got := string(partitionName(nil, number)); got != want {
			t.Errorf("%d is %s, want %s", number, got, want)
		}
	}
}

// answer is a pop's as the broker writes it.
func answer(l *ledger.Ledger, ids []ledger.ID, partition func(ledger.ID) string, data func(ledger.ID) []byte) []byte {
	var messages []string
	for _, id := range ids {
		messages = append(messages, fmt.Sprintf(`{"id":"x","transactionId":"%s","traceId":null,"data":%s,"producerSub":null,"createdAt":"now","partitionId":"uuid-%d",`+
			`"partition":"%s","leaseId":"lease","consumerGroup":"g","deliveryAttempt":1}`, l.AppendID(nil, id), data(id), id.Partition, partition(id)))
	}
	return []byte(`{"success":true,"queue":"q","partition":"p","partitionId":"u","leaseId":"lease","consumerGroup":"g","messages":[` +
		strings.Join(messages, ",") + `],"partitionsClaimed":1}`)
}

func TestAnswersAreReadAndAckedMessageByMessage(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	ids := []ledger.ID{l.Next(0, 1, 5), l.Next(0, 1, 6), l.Next(1, 3, 7)}
	c := Consumers{Target: Target{Deliver: []string{"localhost:1"}}, Ledger: l, Groups: []string{"g"}, Batch: 3}.worker(0, turn.NewMeter())
	named := func(id ledger.ID) string { return string(partitionName(nil, id.Partition)) }
	lease, err := c.read(answer(l, ids, named, l.Payload))
	if err != nil || string(lease) != "lease" || fmt.Sprint(c.ids) != fmt.Sprint(ids) || len(c.found) != 3 {
		t.Fatalf("%v of %v, lease %q (%v)", c.ids, ids, lease, err)
	}
	want := fmt.Sprintf(`{"consumerGroup":"g","acknowledgments":[{"transactionId":"%s","partitionId":"uuid-1","leaseId":"lease","status":"completed"},`, l.AppendID(nil, ids[0]))
	if got := string(c.batchBody(nil, lease)); !strings.HasPrefix(got, want) || strings.Count(got, "transactionId") != 3 || !strings.HasSuffix(got, "}]}") {
		t.Error(got)
	}
	c.name, c.found = "", c.found[:1]
	if got, want := string(c.singleBody(nil, lease)), strings.TrimSuffix(strings.TrimPrefix(want, `{"consumerGroup":"g","acknowledgments":[`), ","); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if j := l.Judge(false)[0]; j.Strange != 0 || j.Left != 3 {
		t.Errorf("%+v", j)
	}
}

func TestAnswersThatAreWrongAreCountedOrRefused(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	ids := []ledger.ID{l.Next(0, 1, 5), l.Next(0, 1, 6)}
	c := Consumers{Target: Target{Deliver: []string{"localhost:1"}}, Ledger: l, Groups: []string{"g"}, Batch: 3}.worker(0, turn.NewMeter())
	named := func(id ledger.ID) string { return string(partitionName(nil, id.Partition)) }
	moved := func(ledger.ID) string { return "p0000002" }
	altered := func(id ledger.ID) []byte { return []byte(strings.ToUpper(string(l.Payload(id)))) }
	for _, wrong := range [][]byte{answer(l, ids, moved, l.Payload), answer(l, ids, named, altered)} {
		if _, err := c.read(wrong); err != nil || len(c.found) != 2 || len(c.ids) != 0 {
			t.Errorf("%v of %s (%v)", c.ids, wrong, err)
		}
	}
	if j := l.Judge(false)[0]; j.Strange != 4 {
		t.Errorf("%+v", j)
	}
	whole := answer(l, ids, named, l.Payload)
	for _, wrong := range [][]byte{whole[:len(whole)/3], answer(l, nil, named, l.Payload), []byte("{}"), nil} {
		if _, err := c.read(wrong); err == nil {
			t.Errorf("read %q", wrong)
		}
	}
}
