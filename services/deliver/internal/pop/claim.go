package pop

import (
	"context"

	"github.com/google/uuid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/seal"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/wire"
	"queen.internal/services/deliver/internal/lease"
	"queen.internal/services/deliver/internal/ready"
	"queen.internal/services/deliver/internal/segments"
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
	result, err := c.o.Commits.Claim(ctx, c.req.Tenant, &group.ClaimRequest{
		Subscription:  subscription,
		Partitions:    partitions,
		Lease:         c.lease,
		LeaseSeconds:  c.req.Query.LeaseSeconds,
		Batch:         c.batch,
		MaxPartitions: c.partitions,
		MaxBytes:      c.bytes,
		AtLeastOne:    !c.delivers(),
		AutoAck:       c.req.Query.AutoAck,
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
	for i := range result.Claims {
		claim := &result.Claims[i]
		c.verdicts[claim.Verdict].Inc()
		if claim.Alone {
			c.batch = 0 // deliver subtracts from it: no claim may follow
		}
		if claim.Verdict == group.Took {
			c.claimed = append(c.claimed, claim.PartitionID)
		}
		if claim.Verdict == group.Leased && result.Settled { // or else nobody knows by which time it was given
			c.o.Clock.Granted(claim.Until.Sub(result.Clock))
		}
		if claim.Verdict == group.Took && !c.req.Query.AutoAck {
			c.o.Clock.Granted(claim.Until.Sub(result.Clock))
			c.keys = append(c.keys, group.LeaseKey{Partition: claim.PartitionID, Subscription: subscription.ID})
			if expires := result.Received.Add(claim.Until.Sub(result.Clock)); expires.After(c.expires) {
				c.expires = expires
			}
		}
	}
	return result.ClaimResult, nil
}

// deliver reads the spans that were taken and adds their messages to the answer. When they cannot be read they are given
// back at the end of the call. A segment that cannot be decoded keeps its lease: the next pop would fare no better.
func (c *call) deliver(ctx context.Context, claims []group.Claim) error {
	var spans []segments.Span
	var took []*group.Claim
	for i := range claims {
		if claim := &claims[i]; claim.Verdict == group.Took {
			took = append(took, claim)
			spans = append(spans, segments.Span{Partition: claim.PartitionID, Segments: claim.Segments})
		}
	}
	if len(spans) == 0 {
		return nil
	}
	keys := c.keys
	if !c.req.Query.AutoAck {
		keys = c.keys[len(c.keys)-len(spans):] // of the claim just made
	}
	if err := c.o.Segments.Read(ctx, c.req.Tenant, spans); err != nil {
		c.unread = append(c.unread, keys...)
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
		if spans[i].Err != nil {
			return spans[i].Err
		}
		c.out.Partition(claim.PartitionUUID, claim.PartitionName, claim.Attempt)
		var hashes []uuid.UUID
		if len(keys) > 0 {
			hashes = make([]uuid.UUID, 0, claim.Last-claim.First+1)
		}
		for _, s := range spans[i].Found {
			hashes = c.add(claim, s, hashes)
		}
		if len(keys) > 0 && len(hashes) == int(claim.Last-claim.First+1) {
			c.spans = append(c.spans, lease.Span{Cursor: keys[i], Partition: claim.PartitionUUID, First: claim.First, Hashes: hashes})
		}
	}
	return nil
}

// add adds what a segment holds of a claimed span, and the transaction hashes of these messages to those before.
func (c *call) add(claim *group.Claim, s *segments.Segment, hashes []uuid.UUID) []uuid.UUID {
	first := max(claim.First-s.Base, 0)
	last := min(claim.Last-s.Base, int64(len(s.Messages))-1)
	c.bytes -= s.RawBytes
	for i := first; i <= last; i++ {
		m := &s.Messages[i]
		payload, outcome := c.o.Keys.Open(m.Payload)
		if outcome == seal.Unopened {
			c.o.Unopened.Inc()
		}
		c.out.Message(&wire.PopMessage{
			ID: m.ID, TransactionID: m.TransactionID, TraceID: m.TraceID, ProducerSub: m.ProducerSub,
			Payload: payload, CreatedAt: s.CreatedAt,
		})
		if !c.req.Query.AutoAck {
			hashes = append(hashes, queue.TransactionHash(m.TransactionID))
		}
	}
	c.o.Delivered.Add(float64(max(last-first+1, 0)))
	return hashes
}
