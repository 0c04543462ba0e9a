package pop

import (
	"context"
	"fmt"
	"time"

	"queen.internal/pkg/seal"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/wire"
	"queen.internal/services/deliver/internal/ready"
)

// claimRing claims what was taken from a ring, gives it back with the verdicts, and delivers what was leased.
func (c *call) claimRing(ctx context.Context, ring *ready.Ring, t ready.Taking) ([]group.Claim, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.o.Timeout)
	defer cancel()
	result, err := c.claim(ctx, t.Subscription, t.Partitions)
	ring.Return(t, result, c.req.Query.AutoAck)
	if err != nil {
		return nil, err
	}
	return result.Claims, c.deliver(ctx, result.Claims)
}

// claim makes one claim within what is left of the budget, and notes what it leased. The clock of its result is the one
// that the verdicts go by.
func (c *call) claim(ctx context.Context, subscription group.Ref, partitions []int64) (group.ClaimResult, error) {
	sent, clockCap := time.Now(), c.o.Clock.Cap()
	result, err := c.o.Groups.Claim(ctx, group.ClaimRequest{
		Subscription:  subscription,
		Partitions:    partitions,
		Lease:         c.lease,
		LeaseSeconds:  c.req.Query.LeaseSeconds,
		Batch:         c.batch,
		MaxPartitions: c.partitions,
		MaxBytes:      c.bytes,
		AtLeastOne:    !c.delivers(),
		AutoAck:       c.req.Query.AutoAck,
		ClockCap:      clockCap,
	})
	if err != nil {
		c.verdicts[0].Inc()
		return group.ClaimResult{}, err
	}
	if result.Err != nil {
		c.o.Logger.WarnContext(ctx, "a message that was delivered too often cannot be dead-lettered", "queue", c.req.Queue, "err", result.Err)
	}
	if len(result.Claims) == 0 {
		c.bytes = 0 // the next message is larger than what is left
	}
	received, reading := time.Now(), result.Clock
	c.o.Clock.Observe(reading, sent, received)
	if !clockCap.IsZero() && clockCap.Before(reading) {
		result.Clock = clockCap // what the claim has compared with; how long to wait follows from it
	}
	for i := range result.Claims {
		claim := &result.Claims[i]
		c.verdicts[claim.Verdict].Inc()
		if claim.Alone {
			c.batch = 0 // deliver subtracts from it: no claim may follow
		}
		leased := claim.Verdict == group.Took && !c.req.Query.AutoAck
		if leased || claim.Verdict == group.Leased {
			c.o.Clock.Granted(claim.Until.Sub(reading))
		}
		if leased {
			c.keys = append(c.keys, group.LeaseKey{Partition: claim.PartitionID, Subscription: subscription.ID})
			if expires := received.Add(claim.Until.Sub(result.Clock)); expires.After(c.expires) {
				c.expires = expires
			}
		}
	}
	return result, nil
}

// deliver reads the spans that were taken and adds their messages to the answer. When they cannot be read they are given
// back at the end of the call. A segment that cannot be decoded keeps its lease: the next pop would fare no better.
func (c *call) deliver(ctx context.Context, claims []group.Claim) error {
	var spans []log.Span
	var took []*group.Claim
	for i := range claims {
		if claim := &claims[i]; claim.Verdict == group.Took {
			took = append(took, claim)
			spans = append(spans, log.Span{Partition: claim.PartitionID, First: claim.First, Last: claim.Last})
		}
	}
	if len(spans) == 0 {
		return nil
	}
	read, err := c.o.Log.Read(ctx, spans)
	if err != nil {
		if !c.req.Query.AutoAck {
			c.unread = append(c.unread, c.keys[len(c.keys)-len(spans):]...) // of the claim just made
		}
		return err
	}
	if c.out == nil {
		if c.out, _ = c.answers.Get().(*wire.PopResponse); c.out == nil {
			c.out = new(wire.PopResponse)
		}
		c.out.Begin(c.req.Queue, c.req.Query.Group, c.lease)
	}
	for i, claim := range took {
		c.partitions--
		c.batch -= int(claim.Last - claim.First + 1)
		c.out.Partition(claim.PartitionUUID, claim.PartitionName, claim.Attempt)
		for j := range read[i] {
			if err := c.add(claim, &read[i][j]); err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds what a segment holds of a claimed span.
func (c *call) add(claim *group.Claim, segment *log.Segment) error {
	messages, err := segment.Messages()
	if err != nil {
		return fmt.Errorf("decode segment %d of partition %s: %w", segment.Base, claim.PartitionUUID, err)
	}
	first := max(claim.First-segment.Base, 0)
	last := min(claim.Last-segment.Base, int64(len(messages))-1)
	c.bytes -= segment.RawBytes
	for i := first; i <= last; i++ {
		m := &messages[i]
		payload, outcome := c.o.Keys.Open(m.Payload)
		if outcome == seal.Unopened {
			c.o.Unopened.Inc()
		}
		c.out.Message(&wire.PopMessage{
			ID: m.ID, TransactionID: m.TransactionID, TraceID: m.TraceID, ProducerSub: m.ProducerSub,
			Payload: payload, CreatedAt: segment.CreatedAt,
		})
	}
	c.o.Delivered.Add(float64(max(last-first+1, 0)))
	return nil
}
