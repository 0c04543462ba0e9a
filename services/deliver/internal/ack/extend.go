package ack

import (
	"context"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/wire"
)

// Extend renews what a lease holds by seconds from now. What is no lease, or not one of this tenant, renews nothing; that
// is no error. Errors have a kind.
func (s *Service) Extend(ctx context.Context, tenant uuid.UUID, lease string, seconds int) (wire.LeaseExtension, error) {
	out := wire.LeaseExtension{Lease: lease}
	id, err := uuid.Parse(lease)
	if err != nil {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Timeout)
	defer cancel()
	extension, err := s.o.Groups.Extend(ctx, tenant, id, seconds, s.o.Clock.Bounds(), s.o.Leases.Keys(tenant, id))
	if err != nil {
		return out, err
	}
	out.Renewed, out.Expires = extension.Renewed, extension.Expires
	if out.Renewed > 0 {
		length := time.Duration(seconds) * time.Second
		s.o.Clock.Granted(length)
		s.o.Leases.Extended(id, time.Now().Add(length))
	}
	return out, nil
}
