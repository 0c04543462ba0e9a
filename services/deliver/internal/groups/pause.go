package groups

import (
	"context"

	"github.com/google/uuid"
)

// SetPause stops the deliveries of a queue, or of one group of it unless groupName is nil, or lets them go on; changed says
// whether that was not so before. A queue that does not exist, and a group that has never come to it, are errors of kind
// NotFound.
func (s *Service) SetPause(ctx context.Context, tenant uuid.UUID, queueName string, groupName *string, paused bool) (changed bool, err error) {
	err = s.page(ctx, func(ctx context.Context) (err error) {
		changed, err = s.o.Groups.SetPause(ctx, tenant, queueName, groupName, paused)
		return err
	})
	if err != nil {
		return false, err
	}
	// Also when nothing did change: whoever asks again may have lost an answer, and whoever gave it its news.
	if groupName != nil {
		s.o.News.Changed(tenant, queueName, *groupName)
	} else {
		s.o.News.Changed(tenant, queueName, "")
	}
	return changed, nil
}
