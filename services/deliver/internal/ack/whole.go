package ack

import (
	"slices"

	"github.com/google/uuid"

	"queen.internal/pkg/store/group"
	"queen.internal/services/deliver/internal/lease"
)

// ends says what a call does if all that it does is to complete leases, each of them whole; otherwise, or when this process
// does not know a lease, it is nil.
func (s *Service) ends(tenant uuid.UUID, consumers string, batches []*batch) []group.Completion {
	ends := make([]group.Completion, len(batches))
	for i, b := range batches {
		if b.group.Lease == nil {
			return nil
		}
		span, known := s.o.Leases.Span(tenant, *b.group.Lease, consumers, b.group.Partition)
		if !known || !whole(&span, b.group.Items) {
			return nil
		}
		ends[i] = group.Completion{
			Tenant: tenant, Cursor: span.Cursor, Partition: span.Partition, Lease: *b.group.Lease,
			First: span.First, Last: span.First + int64(len(span.Hashes)) - 1,
		}
	}
	return ends
}

// whole says whether items complete messages of a span only, and the last one among them, which completes those below it.
// Of a transaction id that stands twice the first message is meant.
func whole(span *lease.Span, items []group.AckItem) bool {
	end := len(span.Hashes) - 1
	last := span.Hashes[end]
	if slices.Index(span.Hashes, last) != end {
		return false
	}
	reached, at := false, 0
	for i := range items {
		if items[i].Signal != group.Completed || items[i].Hash == nil {
			return false
		}
		// Most acks name the messages in their order.
		if at > end || span.Hashes[at] != *items[i].Hash {
			if at = slices.Index(span.Hashes, *items[i].Hash); at < 0 {
				return false
			}
		}
		reached = reached || *items[i].Hash == last
		at++
	}
	return reached
}
