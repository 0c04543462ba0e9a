package messages

import (
	"context"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/store/inspect"
	"queen.internal/pkg/wire"
)

const (
	// maxPartitions bounds the partitions of one listing: those that were written last.
	maxPartitions = 1000
	// maxExamined bounds the messages that a listing by status looks at.
	maxExamined = 5000
)

// Query says which messages are listed.
type Query struct {
	inspect.Filter
	Status        wire.MessageStatus // empty: any
	From, Before  time.Time          // of the commit; Before itself is not in it, zero is no bound
	Limit, Offset int
}

// Page is a part of a listing, newest first.
type Page struct {
	Messages []wire.ListedMessage
	Mode     wire.MessageMode
	More     bool // there are, or may be, others behind it
}

// item is one message of a listing, before it is read.
type item struct {
	inspect.Address
	createdAt time.Time
	standing  standing
}

// List finds messages of a tenant whose hashes are kept. Errors have a kind.
func (r *Reader) List(ctx context.Context, tenant uuid.UUID, q *Query) (Page, error) {
	written, err := r.Inspect.WrittenSince(ctx, tenant, q.Filter, q.From, maxPartitions+1)
	if err != nil {
		return Page{}, err
	}
	var page Page
	if len(written) > maxPartitions {
		written, page.More = written[:maxPartitions], true
	}
	need := q.Offset + q.Limit + 1 // one beyond the page tells that there are more
	if q.Status != "" {
		need = maxExamined
	}
	runs, err := r.newestRuns(ctx, written, q, need)
	if err != nil {
		return Page{}, err
	}
	items := expand(runs, need)
	positions, err := r.Inspect.Positions(ctx, partitionsOf(items))
	if err != nil {
		return Page{}, err
	}
	page.Mode = modeOf(positions)
	dead, err := r.Inspect.Dead(ctx, addressesOf(items))
	if err != nil {
		return Page{}, err
	}
	page.More = page.More || q.Status != "" && len(items) >= maxExamined
	items = selected(items, positions, dead, q.Status)
	items = items[min(q.Offset, len(items)):]
	if len(items) > q.Limit {
		items, page.More = items[:q.Limit], true
	}
	page.Messages, err = r.fill(ctx, written, items)
	return page, err
}

// selected judges items and keeps those with a status.
func selected(items []item, positions []inspect.Position, dead []bool, status wire.MessageStatus) []item {
	at := make(map[int64][]inspect.Position)
	for _, p := range positions {
		at[p.Partition] = append(at[p.Partition], p)
	}
	var kept []item
	for i, it := range items {
		it.standing = judge(at[it.Partition], it.Offset, dead[i])
		if status == "" || it.standing.status == status {
			kept = append(kept, it)
		}
	}
	return kept
}

// expand is the newest messages of runs, which are in order.
func expand(runs []inspect.Run, most int) []item {
	var items []item
	for _, run := range runs {
		for offset := run.End; offset >= run.Base && len(items) < most; offset-- {
			items = append(items, item{
				Address:   inspect.Address{Partition: run.Partition, Base: run.Base, Offset: offset},
				createdAt: run.CreatedAt,
			})
		}
	}
	return items
}

func partitionsOf(items []item) []int64 {
	seen := make(map[int64]bool)
	ids := []int64{} // never NULL to the database
	for _, it := range items {
		if !seen[it.Partition] {
			seen[it.Partition] = true
			ids = append(ids, it.Partition)
		}
	}
	return ids
}

func addressesOf(items []item) []inspect.Address {
	addresses := make([]inspect.Address, len(items))
	for i := range items {
		addresses[i] = items[i].Address
	}
	return addresses
}
