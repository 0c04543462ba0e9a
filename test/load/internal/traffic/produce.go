package traffic

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"queen.internal/test/load/internal/exchange"
	"queen.internal/test/load/internal/ledger"
	"queen.internal/test/load/internal/turn"
)

// Producers push.
type Producers struct {
	Target
	Ledger *ledger.Ledger
	Count  int // at most the ledger's
	Batch  int // messages a push, all for one partition
	// Rate is pushes a second of all producers together, to a schedule; 0: each pushes as soon as it is answered.
	Rate float64
	// Limit is how many messages are sent in all; 0: until the context ends.
	Limit int64
	// Spread makes each push go to several partitions in turn, message by message, instead of one.
	Spread bool
}

// Produce pushes until the context ends or the limit is reached.
func (p Producers) Produce(ctx context.Context, m *turn.Meter) error {
	if p.Count > p.Ledger.Producers() || p.Batch < 1 {
		return fmt.Errorf("push with %d producers in batches of %d: at most %d producers, at least 1 message", p.Count, p.Batch, p.Ledger.Producers())
	}
	var left *atomic.Int64
	if p.Limit > 0 {
		left = new(atomic.Int64)
		left.Store(p.Limit)
	}
	var workers sync.WaitGroup
	for i := range p.Count {
		workers.Go(func() { p.worker(i, m, left).run(ctx) })
	}
	workers.Wait()
	return nil
}

// producer is one worker.
type producer struct {
	Producers
	number  int
	conn    *exchange.Conn
	post    *exchange.Post
	meter   *turn.Meter
	times   *turn.Recorder
	left    *atomic.Int64 // of all producers; nil without a limit
	rand    *rand.Rand
	touched []int // partitions of the push under way, one entry a message
}

func (p Producers) worker(number int, m *turn.Meter, left *atomic.Int64) *producer {
	addr := pickTarget(p.Ingest, number)
	return &producer{
		Producers: p, number: number, meter: m, times: m.Recorder(), left: left,
		conn: exchange.New(addr), post: exchange.NewPost("/api/v1/push", addr, p.Tenant),
		rand: rand.New(rand.NewPCG(uint64(number), uint64(time.Now().UnixNano()))),
	}
}

// run pushes until the context ends or nothing is left to push.
func (p *producer) run(ctx context.Context) {
	defer p.conn.Close()
	schedule := newSchedule(p.Rate, p.Count, p.number)
	for ctx.Err() == nil {
		due, ok := schedule.next(ctx)
		if !ok {
			return
		}
		n := p.take()
		if n == 0 {
			return
		}
		if err := p.push(ctx, due, n); err != nil {
			p.meter.Fail(err)
			pause(ctx, errorPause)
		}
	}
}

// take is how many messages the next push may have.
func (p *producer) take() int {
	if p.left == nil {
		return p.Batch
	}
	rest := p.left.Add(-int64(p.Batch)) + int64(p.Batch)
	return int(max(0, min(rest, int64(p.Batch))))
}

// push sends one request with n messages and enters its outcome.
func (p *producer) push(ctx context.Context, due time.Time, n int) error {
	at := p.Ledger.Micros(due)
	request := p.post.Bytes(func(b []byte) []byte { return p.body(b, n, at) })
	status, answer, err := p.conn.Do(context.WithoutCancel(ctx), request, callTimeout)
	took := time.Since(due)
	stored := bytes.Count(answer, []byte(`"status":"queued"`))
	if err != nil || status != http.StatusCreated || stored != n {
		for _, partition := range p.touched {
			p.Ledger.Doubt(p.number, partition, 1)
		}
		if err == nil {
			err = fmt.Errorf("push of %d messages, %d stored: %d %.300s", n, stored, status, answer)
		}
		return err
	}
	p.meter.Add(turn.Pushed, n)
	p.meter.Add(turn.Calls, 1)
	p.times.Took(turn.Push, took)
	return nil
}

// body appends the items of one push.
func (p *producer) body(b []byte, n int, at int64) []byte {
	partition := p.rand.IntN(p.Ledger.Partitions())
	p.touched = p.touched[:0]
	b = append(b, `{"items":[`...)
	for i := range n {
		if i > 0 {
			b = append(b, ',')
			if p.Spread {
				partition = (partition + 1) % p.Ledger.Partitions()
			}
		}
		id := p.Ledger.Next(p.number, partition, at)
		p.touched = append(p.touched, partition)
		b = append(b, `{"queue":`...)
		b = strconv.AppendQuote(b, p.Queue)
		b = append(b, `,"partition":"`...)
		b = partitionName(b, id.Partition)
		b = append(b, `","transactionId":"`...)
		b = p.Ledger.AppendID(b, id)
		b = append(b, `","payload":`...)
		b = append(b, p.Ledger.Payload(id)...)
		b = append(b, '}')
	}
	return append(b, `]}`...)
}

// schedule says when a worker's requests are due.
type schedule struct {
	start    time.Time
	interval time.Duration // 0: at once
	n        int
}

// newSchedule gives each of the workers its share of the rate, evenly shifted against each other.
func newSchedule(rate float64, workers, number int) *schedule {
	if rate <= 0 {
		return &schedule{}
	}
	interval := time.Duration(float64(workers) / rate * float64(time.Second))
	return &schedule{start: time.Now().Add(interval * time.Duration(number) / time.Duration(workers)), interval: interval}
}

// next waits until the next request is due and returns that moment, which lies in the past when the worker is late. It is
// false when the context ended first.
func (s *schedule) next(ctx context.Context) (time.Time, bool) {
	if s.interval == 0 {
		return time.Now(), true
	}
	due := s.start.Add(time.Duration(s.n) * s.interval)
	s.n++
	return due, pause(ctx, time.Until(due))
}

// pause is false when the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
