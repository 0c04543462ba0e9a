package groups

import (
	"context"

	"github.com/google/uuid"

	"queen.internal/pkg/store/group"
)

// depthPage bounds the partitions of one count: it holds a connection and a snapshot as long.
const depthPage = 5000

// Depth counts what a group has not consumed of a queue, page by page, and lists the first partitions, at most list; without
// a group it counts, for each partition, what the group has not consumed that is furthest behind. The counts of different
// pages may lie a moment apart. found is false when there is no such queue. It ends with ctx; errors have a kind, or are
// ctx's own.
func (s *Service) Depth(ctx context.Context, tenant uuid.UUID, queueName string, groupName *string, list int) (d group.Depth, found bool, err error) {
	for after, more := int64(0), true; more; {
		if err := ctx.Err(); err != nil {
			return group.Depth{}, false, err
		}
		var exists bool
		err := s.page(ctx, func(ctx context.Context) (err error) {
			after, more, exists, err = s.o.Reads.AddDepth(ctx, &d, tenant, queueName, groupName, after, depthPage, list)
			return err
		})
		if err != nil {
			return group.Depth{}, false, err
		}
		found = found || exists
	}
	return d, found, nil
}
