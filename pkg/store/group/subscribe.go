package group

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
)

// Ref names a subscription for ever: after a failover that lost it, its ID may be issued again, its UID may not.
type Ref struct {
	ID  int64
	UID uuid.UUID
}

// Subscription is a group's durable identity on one queue.
type Subscription struct {
	Ref
	QueueID int64
	Queue   string
	Created bool // by this contact: others are to be told of the queue
}

// Start is where a group that is new to a queue or a partition begins. It is read once, at first contact.
type Start struct {
	Mode string    // "new" or "all"; ignored when From is set
	From time.Time // first segment committed at or after it; zero means none
}

// Pinned is one partition seen by one group.
type Pinned struct {
	Subscription
	PartitionID int64
}

func (s Start) mode() string {
	if !s.From.IsZero() {
		return "from"
	}
	return s.Mode
}

const subscribeSQL = `SELECT subscription_id, subscription_uid, queue_id, seeded, seeding_of, queue_created FROM queen.subscribe($1, $2, $3, $4, $5, $6, $7)`

// Subscribe is a group's first contact with a queue, which it creates when there is none, or finds that it happened; then
// start is ignored. A group that is registered, but has not got all its cursors yet, is given some more by each call, and
// until it has them the error is a Seeding. Errors have a kind.
func (s *Store) Subscribe(ctx context.Context, tenant uuid.UUID, queueName, groupName string, start Start) (Subscription, error) {
	sub, _, err := s.subscribe(ctx, tenant, queueName, groupName, start, true)
	return sub, pg.Wrap("subscribe group", err)
}

// Rejoin is Subscribe for somebody whose subscription may be gone with its queue: it creates no queue, so that a deletion
// is not undone by who was there before it. False means that there is none. Errors have a kind.
func (s *Store) Rejoin(ctx context.Context, tenant uuid.UUID, queueName, groupName string, start Start) (Subscription, bool, error) {
	sub, there, err := s.subscribe(ctx, tenant, queueName, groupName, start, false)
	return sub, there, pg.Wrap("subscribe group again", err)
}

func (s *Store) subscribe(ctx context.Context, tenant uuid.UUID, queueName, groupName string, start Start, create bool) (sub Subscription, there bool, err error) {
	sub.Queue = queueName
	var seeded, of *int64
	err = s.pool.QueryRow(ctx, subscribeSQL, optionalUUID(&tenant), queueName, groupName, start.mode(), optionalTime(start.From), create, s.page).
		Scan(&sub.ID, &sub.UID, &sub.QueueID, &seeded, &of, &sub.Created)
	switch {
	case errors.Is(err, pgx.ErrNoRows) && !create:
		return Subscription{}, false, nil
	case err != nil:
		return Subscription{}, false, err
	case seeded != nil && of == nil:
		return Subscription{}, false, &Seeding{Done: *seeded}
	case seeded != nil:
		return Subscription{}, false, &Seeding{Done: *seeded, Of: *of}
	}
	return sub, true, nil
}

const pinSQL = `SELECT subscription_id, subscription_uid, queue_id, partition_id FROM queen.pin($1, $2, $3, $4, $5, $6)`

// Pin is a group's contact with one named partition; false means that queue or partition do not exist, and nothing was
// created. start counts only for a group that is new to both. Errors have a kind.
func (s *Store) Pin(ctx context.Context, tenant uuid.UUID, queueName, partition, groupName string, start Start) (Pinned, bool, error) {
	pinned := Pinned{Subscription: Subscription{Queue: queueName}}
	err := s.pool.QueryRow(ctx, pinSQL, optionalUUID(&tenant), queueName, partition, groupName, start.mode(), optionalTime(start.From)).
		Scan(&pinned.ID, &pinned.UID, &pinned.QueueID, &pinned.PartitionID)
	if errors.Is(err, pgx.ErrNoRows) {
		return Pinned{}, false, nil
	}
	return pinned, err == nil, pg.Wrap("pin partition", err)
}

const discoverSQL = `SELECT queue_name FROM queen.discover($1, $2, $3)`

// Discover lists the tenant's queues with exactly that namespace and that task, oldest first; an empty one matches any.
// Errors have a kind.
func (s *Store) Discover(ctx context.Context, tenant uuid.UUID, namespace, task string) ([]string, error) {
	rows, err := s.pool.Query(ctx, discoverSQL, optionalUUID(&tenant), optionalText(namespace), optionalText(task))
	if err != nil {
		return nil, pg.Wrap("discover queues", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return names, pg.Wrap("discover queues", err)
}

func optionalText(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
