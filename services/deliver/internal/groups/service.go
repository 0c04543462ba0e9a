package groups

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/announce"
)

const (
	// seekPage bounds the cursors that one transaction of a seek locks: acks and pops of these wait for it.
	seekPage = 500
	// dropPage bounds one transaction of a clean-up; what it locks nobody else asks for.
	dropPage = 2000
)

// Options are what a Service works with.
type Options struct {
	Groups  *group.Store // changes
	Reads   *group.Store // counts
	News    *announce.Announcer
	Logger  *slog.Logger
	Timeout time.Duration // of one page
}

// Service changes groups.
type Service struct{ o Options }

// New returns a Service.
func New(o Options) *Service { return &Service{o: o} }

// page calls one page within its time limit. It does not end with the request: see the package comment.
func (s *Service) page(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Timeout)
	defer cancel()
	return call(ctx)
}

// Seek moves a group's cursors in all partitions that a queue has now to the first segment committed at or after to, or to
// the end when to is nil, and returns how many partitions those are. A group that is new to the queue is registered. found
// is false when there is no such queue or it has no partition. When a page fails, those before it are done; the error has a
// kind.
func (s *Service) Seek(ctx context.Context, tenant uuid.UUID, queueName, groupName string, to *time.Time) (partitions int, found bool, err error) {
	var seek group.Seek
	err = s.page(ctx, func(ctx context.Context) (err error) {
		seek, found, err = s.o.Groups.BeginSeek(ctx, tenant, queueName, groupName, to)
		return err
	})
	if err != nil || !found {
		return 0, false, err
	}
	defer s.o.News.Changed(tenant, queueName, groupName)
	for after, more := int64(0), true; more; {
		var placed int
		err := s.page(ctx, func(ctx context.Context) (err error) {
			after, placed, more, err = s.o.Groups.SeekPage(ctx, seek, after, seekPage)
			return err
		})
		if err != nil {
			return partitions, true, err
		}
		partitions += placed
	}
	return partitions, true, nil
}

// SeekPartition is Seek in one partition. A group that is new to the queue is not registered by it.
func (s *Service) SeekPartition(ctx context.Context, tenant uuid.UUID, queueName, partition, groupName string, to *time.Time) (found bool, err error) {
	err = s.page(ctx, func(ctx context.Context) (err error) {
		_, found, err = s.o.Groups.SeekPartition(ctx, tenant, queueName, partition, groupName, to)
		return err
	})
	if found {
		s.o.News.Changed(tenant, queueName, groupName)
	}
	return found, err
}

// ChangeSubscription notes on each of a group's registrations from when on it is said to read, and returns how many those
// are. No position moves. Errors have a kind.
func (s *Service) ChangeSubscription(ctx context.Context, tenant uuid.UUID, groupName string, from time.Time) (registrations int, err error) {
	var queues []string
	err = s.page(ctx, func(ctx context.Context) (err error) {
		queues, err = s.o.Groups.ChangeSubscription(ctx, tenant, groupName, from)
		return err
	})
	for _, name := range queues {
		s.o.News.Changed(tenant, name, groupName)
	}
	return len(queues), err
}

// Delete ends a group's identity on a queue, or on all of its tenant when queueName is nil, and returns how many cursors it
// had there. With keep the registrations stay and begin at the start of the log. The deletion is done when Delete returns
// without an error, which has a kind otherwise; cursors that could not be removed then are left behind and mean nothing.
func (s *Service) Delete(ctx context.Context, tenant uuid.UUID, groupName string, queueName *string, keep bool) (cursors int, err error) {
	var ended []group.Ended
	err = s.page(ctx, func(ctx context.Context) (err error) {
		ended, err = s.o.Groups.Delete(ctx, tenant, groupName, queueName, keep)
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, e := range ended {
		s.o.News.Changed(tenant, e.Queue, groupName)
	}
	for _, e := range ended {
		dropped, err := s.drop(ctx, e.Subscription)
		cursors += dropped
		if err != nil {
			s.o.Logger.WarnContext(ctx, "cursors of a deleted group are left behind", "queue", e.Queue, "group", groupName,
				"subscription", e.Subscription, "err", err)
		}
	}
	return cursors, nil
}

// drop removes the cursors of an identity that has ended.
func (s *Service) drop(ctx context.Context, subscription int64) (cursors int, err error) {
	for after, more := int64(0), true; more && err == nil; {
		err = s.page(ctx, func(ctx context.Context) (err error) {
			var dropped int
			after, dropped, more, err = s.o.Groups.DropCursors(ctx, subscription, after, dropPage)
			cursors += dropped
			return err
		})
	}
	return cursors, err
}
