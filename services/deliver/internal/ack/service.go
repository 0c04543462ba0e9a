package ack

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/wire"
	"queen.internal/services/deliver/internal/announce"
	"queen.internal/services/deliver/internal/commit"
	"queen.internal/services/deliver/internal/lease"
)

// StaleLease is what a client reads when an ack is not made under the live lease.
const StaleLease = "invalid or expired lease"

// What a client reads of an item that was not carried out, contract sections 3.3 and 3.4. Clients look for words in them.
const (
	noConsumer       = "consumer not found"
	alreadyCommitted = "already committed: the cursor moved past this message before this ack"
	unresolvable     = "unresolvable: transaction not in the ack window (hash purged or never pushed); if leased, the message redelivers"
	deadLetterLost   = "dlq rejected"
)

// Options are what a Service works with.
type Options struct {
	Groups  *group.Store
	Commits *commit.Committer
	News    *announce.Announcer
	Clock   *lease.Clock
	Leases  *lease.Registry
	Timeout time.Duration // of one call of the store

	Outcomes *prometheus.CounterVec // items by label outcome
}

// Service carries out acks and renewals.
type Service struct{ o Options }

// New returns a Service.
func New(o Options) *Service { return &Service{o: o} }

// Ack carries out one call and returns a result for each item, in the order of the request. Errors have a kind; then
// nothing is known of any item.
func (s *Service) Ack(ctx context.Context, tenant uuid.UUID, req wire.AckRequest) ([]wire.AckResult, error) {
	results := make([]wire.AckResult, len(req.Items))
	batches := sort(req.Items, results)
	if len(batches) > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Timeout)
		defer cancel()
		if err := s.decide(ctx, tenant, req.Group, batches, results); err != nil {
			return nil, err
		}
	}
	s.Count(results)
	return results, nil
}

// decide has the batches of one call decided, together if all of them merely end their leases and in one call of the store
// otherwise.
func (s *Service) decide(ctx context.Context, tenant uuid.UUID, consumers string, batches []*batch, results []wire.AckResult) error {
	if ends := s.ends(tenant, consumers, batches); ends != nil {
		outcomes, err := s.o.Commits.Complete(ctx, tenant, ends)
		if err != nil {
			return err
		}
		var open []*batch
		for i, outcome := range outcomes {
			if outcome == group.Undecided {
				open = append(open, batches[i])
				continue
			}
			d := group.AckResult{
				Outcome: group.Decided, Items: make([]group.ItemOutcome, len(batches[i].places)), LeaseReleased: true,
				PartitionID: ends[i].Cursor.Partition, SubscriptionID: ends[i].Cursor.Subscription, Committed: ends[i].Last, Last: ends[i].Last,
			}
			if outcome == group.LeftBehind {
				d.Last++ // or higher
			}
			s.settle(ctx, tenant, batches[i], &d, results)
		}
		batches = open
	}
	if len(batches) == 0 {
		return nil
	}
	groups := make([]group.AckGroup, len(batches))
	for i, b := range batches {
		groups[i] = b.group
	}
	decisions, err := s.o.Groups.Ack(ctx, tenant, consumers, s.o.Clock.Bounds(), groups)
	if err != nil {
		return err
	}
	for i := range decisions {
		s.settle(ctx, tenant, batches[i], &decisions[i], results)
	}
	return nil
}

// Count counts items by what became of them.
func (s *Service) Count(results []wire.AckResult) {
	for i := range results {
		s.o.Outcomes.WithLabelValues(outcome(&results[i])).Inc()
	}
}

// batch is the items of one call that share partition and lease.
type batch struct {
	group  group.AckGroup
	places []int // of its items in the request
}

// sort divides the items of a call into batches, keeping their order. An item whose partition or lease cannot be one has
// its result at once.
func sort(items []wire.AckItem, results []wire.AckResult) []*batch {
	type key struct{ partition, lease uuid.UUID }
	var batches []*batch
	index := make(map[key]*batch)
	for i := range items {
		item := &items[i]
		results[i].TransactionID = item.TransactionID
		partition, err := uuid.Parse(item.PartitionID)
		if err != nil {
			results[i].Error = NoPartition(item.PartitionID)
			continue
		}
		k := key{partition: partition}
		if item.LeaseID != "" {
			if k.lease, err = uuid.Parse(item.LeaseID); err != nil || k.lease == uuid.Nil {
				results[i].Error = StaleLease // nobody was ever given it
				continue
			}
		}
		b := index[k]
		if b == nil {
			b = &batch{group: group.AckGroup{Partition: partition}}
			if k.lease != uuid.Nil {
				b.group.Lease = &k.lease
			}
			index[k] = b
			batches = append(batches, b)
		}
		b.places = append(b.places, i)
		b.group.Items = append(b.group.Items, Item(item))
	}
	return batches
}

// Item is an item as the store takes it.
func Item(item *wire.AckItem) group.AckItem {
	out := group.AckItem{Signal: signals[item.Status], Reason: item.Reason}
	if item.TransactionID != "" {
		hash := queue.TransactionHash(item.TransactionID)
		out.Hash = &hash
	}
	return out
}

var signals = [...]group.Signal{
	wire.AckCompleted:  group.Completed,
	wire.AckRetry:      group.Retry,
	wire.AckFailed:     group.Failed,
	wire.AckDeadLetter: group.DeadLetter,
}

// settle renders the decision on one batch, and tells who waits for its partition when that came free.
func (s *Service) settle(ctx context.Context, tenant uuid.UUID, b *batch, d *group.AckResult, results []wire.AckResult) {
	for i, place := range b.places {
		r := &results[place]
		r.Error = GroupError(d.Outcome)
		if d.Outcome == group.Decided {
			r.Error = ItemError(d.Items[i])
			r.Noop = d.Items[i] == group.Noop
		}
		if r.Error == "" {
			r.LeaseReleased, r.DeadLettered = d.LeaseReleased, d.DeadLettered
		}
	}
	if d.Outcome != group.Decided || !d.LeaseReleased {
		return
	}
	var leases []uuid.UUID
	if b.group.Lease != nil {
		leases = append(leases, *b.group.Lease)
	}
	cursor := group.LeaseKey{Partition: d.PartitionID, Subscription: d.SubscriptionID}
	s.forget(cursor, leases)
	s.o.News.Acked(ctx, tenant, cursor, d.Committed, d.Last)
}

// Ended says that an ack elsewhere ended the lease of a cursor, which was one of leases if that is known: it is forgotten,
// and who waits for the partition is told.
func (s *Service) Ended(ctx context.Context, tenant uuid.UUID, cursor group.LeaseKey, leases []uuid.UUID) {
	s.forget(cursor, leases)
	s.o.News.Freed(ctx, tenant, cursor)
}

func (s *Service) forget(cursor group.LeaseKey, leases []uuid.UUID) {
	for _, lease := range leases {
		s.o.Leases.Released(lease, cursor)
	}
}

// NoPartition is what a client reads of an item whose partition cannot be one.
func NoPartition(partition string) string {
	return fmt.Sprintf("invalid partitionId: %q is not a UUID", partition)
}

// ItemError is what a client reads of an item with this outcome; nothing when the instruction was carried out.
func ItemError(outcome group.ItemOutcome) string { return itemErrors[outcome] }

// GroupError is what a client reads of all items of a group that was not decided; nothing when it was.
func GroupError(outcome group.GroupOutcome) string {
	switch outcome {
	case group.Decided:
		return ""
	case group.DeadLetterLost:
		return deadLetterLost
	}
	return noConsumer // a partition of another tenant looks like one that does not exist
}

var itemErrors = [...]string{
	group.Applied:          "",
	group.Noop:             "",
	group.AlreadyCommitted: alreadyCommitted,
	group.Unresolvable:     unresolvable,
	group.StaleLease:       StaleLease,
}

// outcome is the label an item is counted under.
func outcome(r *wire.AckResult) string {
	switch {
	case r.Noop:
		return "noop"
	case r.DeadLettered:
		return "dead_lettered"
	case r.Error == "":
		return "applied"
	case r.Error == StaleLease:
		return "stale_lease"
	case r.Error == unresolvable:
		return "unresolvable"
	}
	return "refused"
}
