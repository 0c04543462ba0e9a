package traffic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"queen.internal/test/load/internal/turn"
)

// Rounds pushes single messages one after the other, each when the one before was acked, to one consumer. With parked the
// consumer's pop waits already when the push begins, and what is timed as Delivered is from the push's answer to the pop's;
// without, the pop is sent when the push was answered, and is timed as Pop.
type Rounds struct {
	Producers Producers
	Consumers Consumers
	Count     int
	Parked    bool
	// Settle is how long a pop that was sent gets to be parked.
	Settle time.Duration
}

// Run does all rounds, or ends with the context.
func (r Rounds) Run(ctx context.Context, m *turn.Meter) error {
	p, c := r.Producers.worker(0, m, nil), r.Consumers.worker(0, m)
	defer p.conn.Close()
	defer c.conn.Close()
	for i := 0; i < r.Count && ctx.Err() == nil; i++ {
		do := r.ask
		if r.Parked {
			do = r.wait
		}
		if err := do(ctx, p, c); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
	}
	return nil
}

// ask pushes, then pops.
func (r Rounds) ask(ctx context.Context, p *producer, c *consumer) error {
	if !pause(ctx, r.Settle) { // the same pace as the other way
		return nil
	}
	if err := p.push(ctx, time.Now(), 1); err != nil {
		return err
	}
	return c.one(ctx)
}

// wait pops, then pushes, and takes the time between the answers.
func (r Rounds) wait(ctx context.Context, p *producer, c *consumer) error {
	var pushed, popped time.Time
	var failure error
	var popping sync.WaitGroup
	c.got = func(at time.Time) { popped = at }
	popping.Go(func() { failure = c.one(ctx) })
	pause(ctx, r.Settle)
	err := p.push(ctx, time.Now(), 1)
	pushed = time.Now()
	popping.Wait()
	c.got = nil
	if err = errors.Join(err, failure); err != nil {
		return err
	}
	p.times.Took(turn.Delivered, max(0, popped.Sub(pushed)))
	return nil
}

var errNothing = errors.New("the pop brought nothing")

// one is a round that must bring a message.
func (c *consumer) one(ctx context.Context) error {
	n, err := c.round(ctx)
	if err == nil && n == 0 {
		err = errNothing
	}
	return err
}
