package group

import (
	"fmt"
	"time"

	"queen.internal/pkg/queue"
)

// seedPage is how many cursors one call of Subscribe writes: a new group's take about 20 ms, those of one that begins at a
// time up to 100 ms. That long the first call holds up whoever creates a partition in the queue.
const seedPage = 1000

// seedPause is when to ask again for a group that is being registered.
const seedPause = time.Second

// Seeding is the error, of kind Unavailable, of a group whose registration is not at its end: its queue has more partitions
// than one call gives it cursors in. The next call goes on.
type Seeding struct {
	Done int64 // partitions in which the group has its cursor
	Of   int64 // of so many; zero when they are not counted yet
}

func (s *Seeding) Error() string {
	if s.Of == 0 {
		return fmt.Sprintf("the group is being registered: %d partitions are done", s.Done)
	}
	return fmt.Sprintf("the group is being registered: %d of %d partitions are done", s.Done, s.Of)
}

// Unwrap gives it its kind.
func (s *Seeding) Unwrap() error { return queue.Unavailable(s.Error(), seedPause, nil) }

// SeedBy returns a Store whose registrations write that many cursors a call, for tests that have fewer partitions than
// others have in one page.
func (s *Store) SeedBy(partitions int) *Store {
	paged := *s
	paged.page = partitions
	return &paged
}
