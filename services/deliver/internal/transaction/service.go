package transaction

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/seal"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/wire"
	"queen.internal/services/deliver/internal/ack"
	"queen.internal/services/deliver/internal/lease"
)

// Options are what a Service works with.
type Options struct {
	Log     *appendlog.Log
	Groups  *group.Store // decides the acks, on the pool of Log
	Acks    *ack.Service
	Clock   *lease.Clock
	Keys    *seal.Keys    // may be unable to seal
	Timeout time.Duration // of one transaction with all its repetitions

	Outcomes *prometheus.CounterVec // transactions by label outcome
}

// Service carries out transactions.
type Service struct{ o Options }

// New returns a Service.
func New(o Options) *Service { return &Service{o: o} }

// Answer is what became of a transaction: results, or a failure, and then nothing of it happened.
type Answer struct {
	ID      uuid.UUID
	Results []wire.OperationResult
	Failure *wire.TransactionFailure
}

// Transact carries out req for a tenant. producer, who calls as far as a verified token says, is noted in the messages. An
// error has a kind, and is nobody's fault who wrote the request; with KindUnknown the transaction may have happened.
func (s *Service) Transact(ctx context.Context, tenant uuid.UUID, producer string, req *wire.Transaction) (Answer, error) {
	id, fingerprint := identify(tenant, req)
	if len(req.Operations) == 0 {
		return Answer{ID: id}, nil
	}
	p := newPlan(tenant, id, producer, req)
	p.tx.Fingerprint, p.tx.Clock = fingerprint, s.o.Clock.Bounds
	answer, outcome, err := s.transact(ctx, p)
	answer.ID = id
	s.o.Outcomes.WithLabelValues(outcome).Inc()
	return answer, err
}

func (s *Service) transact(ctx context.Context, p *plan) (answer Answer, outcome string, err error) {
	if p.failure != nil {
		return Answer{Failure: p.failure}, p.failure.Reason, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Timeout)
	defer cancel()
	done, failure, err := s.commit(ctx, p)
	switch {
	case err != nil:
		if kind := queue.KindOf(err); kind != queue.KindInvalid && kind != queue.KindTooLarge {
			return Answer{}, "failed", err
		}
		failure = databaseFailure(err)
	case failure != nil:
	case done.Repeated && !bytes.Equal(done.Record.Fingerprint, p.tx.Fingerprint):
		failure = otherRequest()
	default:
		s.after(ctx, p, done.Record)
		if done.Repeated {
			return Answer{Results: p.results(done.Record)}, "repeated", nil
		}
		s.o.Acks.Count(p.acked(done.Record))
		return Answer{Results: p.results(done.Record)}, "committed", nil
	}
	return Answer{Failure: failure}, failure.Reason, nil
}

// commit has the plan committed. It is tried in plain first, because whether a queue wants sealed payloads is decided where
// its partitions are locked.
func (s *Service) commit(ctx context.Context, p *plan) (appendlog.Transacted, *wire.TransactionFailure, error) {
	for {
		done, err := s.o.Log.Transact(ctx, s.o.Groups, &p.tx)
		switch {
		case err != nil:
			return done, nil, err
		case done.Acks != nil:
			return done, p.refused(done.Acks), nil
		case done.Duplicates != nil:
			return done, p.duplicates(done.Duplicates), nil
		case done.MustSeal == nil:
			return done, nil, nil
		case !s.o.Keys.CanSeal():
			return done, p.noKey(done.MustSeal[0]), nil
		}
		for _, i := range done.MustSeal { // at least one that was not sealed, so there is an end
			s.seal(&p.tx.Groups[i])
		}
	}
}

func (s *Service) seal(g *appendlog.Group) {
	for i := range g.Messages {
		m := &g.Messages[i]
		m.Payload = s.o.Keys.Seal(m.Payload)
	}
	g.Sealed = true
}

// after tells whoever waits for a partition that it came free.
func (s *Service) after(ctx context.Context, p *plan, record *group.BundleRecord) {
	for i, partition := range record.FreedPartitions {
		s.o.Acks.Ended(ctx, p.tx.Tenant, group.LeaseKey{Partition: partition, Subscription: record.FreedSubscriptions[i]}, p.named)
	}
}

func databaseFailure(err error) *wire.TransactionFailure {
	text := "the database refuses the input"
	var known *queue.Error
	if errors.As(err, &known) {
		text = known.Message
	}
	return &wire.TransactionFailure{Error: "QTXN " + text + rolledBack, Reason: wire.ReasonDatabase, Index: -1}
}

func otherRequest() *wire.TransactionFailure {
	return &wire.TransactionFailure{
		Error:  "bad body: idempotencyKey was used for another transaction, which was committed",
		Reason: wire.ReasonBadRequest, Index: -1,
	}
}

func rejected(operation int, why string) *wire.TransactionFailure {
	return &wire.TransactionFailure{
		Error: fmt.Sprintf("QTXN ack rejected: %s", why) + rolledBack, Reason: wire.ReasonAckRejected, Index: operation,
	}
}

// rolledBack ends every text of a failure.
const rolledBack = "; transaction rolled back"
