package traffic

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"queen.internal/test/load/internal/exchange"
	"queen.internal/test/load/internal/ledger"
	"queen.internal/test/load/internal/turn"
)

// Consumers pop and ack.
type Consumers struct {
	Target
	Ledger *ledger.Ledger
	Groups []string // one name for each group of the ledger; the empty one is queue mode
	// First numbers the first of Groups in the ledger, so that one of several groups can be read alone.
	First      int
	Count      int // spread over the groups in turn
	Batch      int // messages a pop
	Partitions int // that a pop may claim; 0 means 1
	AutoAck    bool
	Mode       string        // of the subscription; empty: all
	Timeout    time.Duration // of a long poll
	// Limit is how many messages are read in all; 0: until the context ends. Consumers without work wait for the rest.
	Limit int64
}

// Consume pops until the context ends or the limit is reached.
func (c Consumers) Consume(ctx context.Context, m *turn.Meter) error {
	if len(c.Groups) == 0 || c.First+len(c.Groups) > c.Ledger.Groups() || c.Batch < 1 {
		return fmt.Errorf("consume in batches of %d as groups %q from %d of %d", c.Batch, c.Groups, c.First, c.Ledger.Groups())
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var read atomic.Int64
	var workers sync.WaitGroup
	for i := range c.Count {
		workers.Go(func() {
			w := c.worker(i, m)
			defer w.conn.Close()
			for ctx.Err() == nil {
				n, err := w.round(ctx)
				if err != nil {
					m.Fail(err)
					pause(ctx, errorPause)
				}
				if c.Limit > 0 && read.Add(int64(n)) >= c.Limit {
					stop()
				}
			}
		})
	}
	workers.Wait()
	return nil
}

// consumer is one worker.
type consumer struct {
	Consumers
	group int // in the ledger
	name  string
	conn  *exchange.Conn
	pop   []byte
	ack   *exchange.Post // one message
	acks  *exchange.Post // several
	meter *turn.Meter
	times *turn.Recorder
	found []found
	ids   []ledger.ID

	partition []byte // a name to compare with

	got func(at time.Time) // is told when a pop has brought messages, instead of their times; nil mostly
}

// found is one message of an answer. The slices are of the answer.
type found struct {
	transactionID, partitionID []byte
}

func (c Consumers) worker(number int, m *turn.Meter) *consumer {
	addr := pickTarget(c.Deliver, number/len(c.Groups))
	w := &consumer{
		Consumers: c, group: c.First + number%len(c.Groups), name: c.Groups[number%len(c.Groups)], conn: exchange.New(addr),
		ack: exchange.NewPost("/api/v1/ack", addr, c.Tenant), acks: exchange.NewPost("/api/v1/ack/batch", addr, c.Tenant),
		meter: m, times: m.Recorder(),
	}
	q := url.Values{"batch": {strconv.Itoa(c.Batch)}, "wait": {"true"}, "timeout": {strconv.FormatInt(c.Timeout.Milliseconds(), 10)}}
	if c.Partitions > 1 {
		q.Set("partitions", strconv.Itoa(c.Partitions))
	}
	if w.name != "" {
		q.Set("consumerGroup", w.name)
	}
	if q.Set("subscriptionMode", c.Mode); c.Mode == "" {
		q.Set("subscriptionMode", "all")
	}
	if c.AutoAck {
		q.Set("autoAck", "true")
	}
	w.pop = exchange.Get(queuePath(c.Queue)+"?"+q.Encode(), addr, c.Tenant)
	return w
}

// round is one pop and its ack. It returns how many messages it got.
func (c *consumer) round(ctx context.Context) (int, error) {
	start := time.Now()
	status, answer, err := c.conn.Do(context.WithoutCancel(ctx), c.pop, c.Timeout+callTimeout)
	if err != nil {
		return 0, err
	}
	c.meter.Add(turn.Calls, 1)
	if status == http.StatusNoContent {
		c.meter.Add(turn.Empty, 1)
		return 0, nil
	}
	if status != http.StatusOK {
		return 0, fmt.Errorf("pop: %d %.300s", status, answer)
	}
	got := time.Now()
	c.times.Took(turn.Pop, got.Sub(start))
	lease, err := c.read(answer)
	if err != nil {
		return 0, err
	}
	if c.got != nil {
		c.got(got)
	} else {
		now := c.Ledger.Micros(got)
		for _, id := range c.ids {
			c.times.Took(turn.Delivered, time.Duration(now-id.At)*time.Microsecond)
		}
	}
	c.Ledger.Deliver(c.group, c.ids)
	c.meter.Add(turn.Popped, len(c.found))
	if c.AutoAck {
		return len(c.found), nil
	}
	return len(c.found), c.acknowledge(ctx, lease)
}

// read finds the messages of an answer, in order, and has the ledger recognize them. It relies on the order of the keys.
func (c *consumer) read(answer []byte) (lease []byte, err error) {
	c.found, c.ids = c.found[:0], c.ids[:0]
	all := answer
	lease, rest, ok := text(answer, `"leaseId":"`)
	for ok {
		var f found
		if f.transactionID, rest, ok = text(rest, `"transactionId":"`); !ok {
			break
		}
		data, after, found := value(rest, `"data":`, c.Ledger.Payloads().Size())
		if !found {
			return nil, fmt.Errorf("pop: a message without data in %.300s", all)
		}
		id, known := c.Ledger.Recognize(c.group, f.transactionID, data)
		if f.partitionID, rest, ok = text(after, `"partitionId":"`); !ok {
			return nil, fmt.Errorf("pop: a message without partitionId in %.300s", all)
		}
		var partition []byte
		if partition, rest, ok = text(rest, `"partition":"`); !ok {
			return nil, fmt.Errorf("pop: a message without partition in %.300s", all)
		}
		switch c.partition = partitionName(c.partition[:0], id.Partition); {
		case known && bytes.Equal(partition, c.partition):
			c.ids = append(c.ids, id)
		case known:
			c.Ledger.Strange(c.group) // it lies in a partition that it was not sent to
		}
		c.found = append(c.found, f)
	}
	if len(c.found) == 0 {
		return nil, fmt.Errorf("pop: no message in %.300s", all)
	}
	return lease, nil
}

// text is the string after key, and what follows it.
func text(b []byte, key string) (value, rest []byte, ok bool) {
	i := bytes.Index(b, []byte(key))
	if i < 0 {
		return nil, nil, false
	}
	b = b[i+len(key):]
	end := bytes.IndexByte(b, '"')
	if end < 0 {
		return nil, nil, false
	}
	return b[:end], b[end+1:], true
}

// value is the size bytes after key, and what follows them.
func value(b []byte, key string, size int) (value, rest []byte, ok bool) {
	i := bytes.Index(b, []byte(key))
	if i < 0 || len(b) < i+len(key)+size {
		return nil, nil, false
	}
	b = b[i+len(key):]
	return b[:size], b[size:], true
}

// acknowledge completes what read has found. lease is of the answer, so it is copied into the request first.
func (c *consumer) acknowledge(ctx context.Context, lease []byte) error {
	start := time.Now()
	request := c.acks.Bytes
	write := func(b []byte) []byte { return c.batchBody(b, lease) }
	if len(c.found) == 1 {
		request = c.ack.Bytes
		write = func(b []byte) []byte { return c.singleBody(b, lease) }
	}
	status, answer, err := c.conn.Do(context.WithoutCancel(ctx), request(write), callTimeout)
	if err != nil {
		return err
	}
	c.meter.Add(turn.Calls, 1)
	if done := bytes.Count(answer, []byte(`"success":true`)); status != http.StatusOK || done != len(c.found) {
		return fmt.Errorf("ack of %d messages, %d done: %d %.300s", len(c.found), done, status, answer)
	}
	c.times.Took(turn.Ack, time.Since(start))
	c.meter.Add(turn.Acked, len(c.found))
	return nil
}

func (c *consumer) batchBody(b, lease []byte) []byte {
	b = append(b, '{')
	if c.name != "" {
		b = append(strconv.AppendQuote(append(b, `"consumerGroup":`...), c.name), ',')
	}
	b = append(b, `"acknowledgments":[`...)
	for i, f := range c.found {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendAck(append(b, '{'), f, lease), '}')
	}
	return append(b, `]}`...)
}

func (c *consumer) singleBody(b, lease []byte) []byte {
	b = append(b, '{')
	if c.name != "" {
		b = append(strconv.AppendQuote(append(b, `"consumerGroup":`...), c.name), ',')
	}
	return append(appendAck(b, c.found[0], lease), '}')
}

func appendAck(b []byte, f found, lease []byte) []byte {
	b = append(b, `"transactionId":"`...)
	b = append(b, f.transactionID...)
	b = append(b, `","partitionId":"`...)
	b = append(b, f.partitionID...)
	b = append(b, `","leaseId":"`...)
	b = append(b, lease...)
	return append(b, `","status":"completed"`...)
}
