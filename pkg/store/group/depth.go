package group

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
)

// Depth is what a group has not consumed in some partitions of a queue. Counts are of messages unless they say otherwise.
type Depth struct {
	Partitions        int
	Pending           int64 // past the cursor, leased ones included
	Processing        int64 // of these, under a live lease
	PartitionsPending int   // partitions with pending messages
	PartitionsReady   int   // partitions with pending messages that are not leased
	Listed            []PartitionDepth
}

// PartitionDepth is the same for one partition.
type PartitionDepth struct {
	Name                string
	Pending, Processing int64
}

const depthSQL = `SELECT last_partition_id, partitions, pending, processing, partitions_pending, partitions_ready, names, pendings, processings
FROM queen.depth($1, $2, $3, $4, $5, $6)`

// AddDepth counts the next limit partitions of a queue into d, without a group for the one that is furthest behind, and
// lists the first of them while d lists fewer than list. after is the last partition of the page before, 0 for the first;
// more is false when none was left. found is false when there is no such queue. Errors have a kind.
func (s *Store) AddDepth(ctx context.Context, d *Depth, tenant uuid.UUID, queueName string, groupName *string, after int64, limit, list int) (last int64, more, found bool, err error) {
	var page Depth
	var end *int64
	var names []string
	var pendings, processings []int64
	err = s.pool.QueryRow(ctx, depthSQL, optionalUUID(&tenant), queueName, groupName, after, limit, max(list-len(d.Listed), 0)).
		Scan(&end, &page.Partitions, &page.Pending, &page.Processing, &page.PartitionsPending, &page.PartitionsReady, &names, &pendings, &processings)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return after, false, false, nil
	case err != nil:
		return after, false, false, pg.Wrap("count a queue's depth", err)
	case end == nil:
		return after, false, true, nil
	}
	d.Partitions += page.Partitions
	d.Pending += page.Pending
	d.Processing += page.Processing
	d.PartitionsPending += page.PartitionsPending
	d.PartitionsReady += page.PartitionsReady
	for i, name := range names {
		d.Listed = append(d.Listed, PartitionDepth{Name: name, Pending: pendings[i], Processing: processings[i]})
	}
	return *end, true, true, nil
}
