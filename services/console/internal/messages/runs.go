package messages

import (
	"cmp"
	"context"
	"slices"

	"queen.internal/pkg/store/inspect"
)

// runsAtOnce is how many partitions one statement looks at.
const runsAtOnce = 32

// newestRuns finds the newest runs of partitions that hold together at least need messages, or all there are, newest
// first. The partitions come in the order of their last write. What is older than the need-th message so far cannot be
// among the newest, so each step asks for less, and it ends at the partition that was last written before that.
func (r *Reader) newestRuns(ctx context.Context, written []inspect.Written, q *Query, need int) ([]inspect.Run, error) {
	var runs []inspect.Run
	from, full := q.From, false
	for step := range slices.Chunk(written, runsAtOnce) {
		if full && step[0].LastCreatedAt.Before(from) {
			break
		}
		ids := make([]int64, len(step))
		for i := range step {
			ids[i] = step[i].ID
		}
		found, err := r.Inspect.Runs(ctx, ids, from, q.Before, need)
		if err != nil {
			return nil, err
		}
		runs = append(runs, found...)
		slices.SortFunc(runs, newerFirst)
		if runs, full = cut(runs, need); full {
			from = runs[len(runs)-1].CreatedAt
		}
	}
	return runs, nil
}

// newerFirst is the order of a listing.
func newerFirst(a, b inspect.Run) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.Partition, b.Partition), cmp.Compare(b.Base, a.Base))
}

// cut keeps the runs up to the one that holds the need-th message; full says that there is one.
func cut(runs []inspect.Run, need int) (kept []inspect.Run, full bool) {
	count := int64(0)
	for i := range runs {
		count += runs[i].End - runs[i].Base + 1
		if count >= int64(need) {
			return runs[:i+1], true
		}
	}
	return runs, false
}
