// Package live shows which leases are held, and ends them from outside. Both are for people: nothing that consumers do
// depends on them. What a lease is and when it is live is decided in SQL.
//
// A Service starts no goroutine, keeps no state and is shared by all requests.
package live

import (
	"context"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/announce"
	"queen.internal/services/deliver/internal/lease"
)

// page bounds the cursors that one call of a walk reads.
const page = 10_000

// Options are what a Service works with.
type Options struct {
	Groups  *group.Store // ends leases
	Reads   *group.Store // walks
	News    *announce.Announcer
	Clock   *lease.Clock
	Leases  *lease.Registry
	Timeout time.Duration // of one call of a store
}

// Service shows and ends leases.
type Service struct{ o Options }

// New returns a Service.
func New(o Options) *Service { return &Service{o: o} }

// List is up to limit live leases of a tenant, and whether there are more; an empty queueName or groupName means any. It
// reads the cursors of all groups that are meant, until it has enough, and ends early with ctx. Errors have a kind.
func (s *Service) List(ctx context.Context, tenant uuid.UUID, queueName, groupName string, limit int) (leases []group.LiveLease, truncated bool, err error) {
	var at group.LeaseWalk
	for more := true; more; {
		var found []group.LiveLease
		found, at, more, err = s.walk(ctx, tenant, queueName, groupName, at)
		if err != nil {
			return nil, false, err
		}
		if leases = append(leases, found...); len(leases) > limit {
			return leases[:limit], true, nil
		}
	}
	return leases, false, nil
}

func (s *Service) walk(ctx context.Context, tenant uuid.UUID, queueName, groupName string, from group.LeaseWalk) ([]group.LiveLease, group.LeaseWalk, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	return s.o.Reads.Leases(ctx, tenant, queueName, groupName, from, page, s.o.Clock.Bounds())
}

// End ends a lease as if it had run out now, tells who waits for its partitions, and returns how many came free. What is no
// lease, or not a live one of this tenant, frees none; that is no error. Errors have a kind.
func (s *Service) End(ctx context.Context, tenant uuid.UUID, id string) (freed int, err error) {
	lease, err := uuid.Parse(id)
	if err != nil {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Timeout)
	defer cancel()
	keys, err := s.o.Groups.Expire(ctx, tenant, lease, s.o.Clock.Bounds(), s.o.Leases.Keys(tenant, lease))
	if err != nil {
		return 0, err
	}
	for _, key := range keys {
		s.o.Leases.Released(lease, key)
	}
	s.o.News.Freed(ctx, tenant, keys...)
	return len(keys), nil
}
