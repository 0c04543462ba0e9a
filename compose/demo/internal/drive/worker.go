package drive

import (
	"context"
	"time"

	"queen.internal/pkg/backoff"
	"queen.internal/pkg/client"
)

const (
	popMessages   = 100
	popPartitions = 4               // few, so that workers share a small queue instead of one taking it all
	popWait       = 5 * time.Second // of a long poll
	workerLease   = 30 * time.Second
	ackLimit      = 3 * time.Second // for an acknowledgment that was under way when the run stopped
)

// book is what a worker reports to: the ledger, or in the victim's process a pipe to it.
type book interface {
	Delivered(group, partition string, sequence int, intact bool)
	Acked(group, partition string, sequence int)
}

// worker consumes a group's messages.
type worker struct {
	client *client.Client
	queue  string
	run    Run
	group  string
	lease  time.Duration
	book   book
}

var retry = backoff.Policy{Min: 100 * time.Millisecond, Max: 2 * time.Second}

// consume takes and acknowledges messages until the context ends, which is not an error. It outlives a broker that is
// away: only an answer that says no for good ends it.
func (w worker) consume(ctx context.Context) error {
	for {
		batch, err := w.take(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.acknowledge(ctx, batch); err != nil && !client.Transient(err) {
			return err
		}
	}
}

// take pops until something is delivered and reports it.
func (w worker) take(ctx context.Context) (client.Batch, error) {
	for failures := 0; ; {
		batch, err := w.client.Pop(ctx, client.PopRequest{
			Queue: w.queue, Group: w.group, Batch: popMessages, Partitions: popPartitions, Wait: popWait, Lease: w.lease,
		})
		switch {
		case err == nil && len(batch.Messages) > 0:
			for _, m := range batch.Messages {
				if sequence, intact, ours := w.run.Parse(m.TransactionID, m.Data); ours {
					w.book.Delivered(w.group, m.Partition, sequence, intact)
				}
			}
			return batch, nil
		case err == nil:
			failures = 0
		case !client.Transient(err):
			return client.Batch{}, err
		default:
			if err := backoff.Sleep(ctx, retry.Next(failures)); err != nil {
				return client.Batch{}, err
			}
			failures++
		}
		if ctx.Err() != nil {
			return client.Batch{}, context.Cause(ctx)
		}
	}
}

// acknowledge completes a batch, messages of other runs as well. What the broker does not take, because the lease has
// ended, comes again.
func (w worker) acknowledge(ctx context.Context, batch client.Batch) error {
	acks := make([]client.Acknowledgment, len(batch.Messages))
	for i, m := range batch.Messages {
		acks[i] = client.AckOf(m, client.Completed)
	}
	ctx, cancel := outlive(ctx, ackLimit)
	defer cancel()
	results, err := w.client.AckBatch(ctx, w.group, acks)
	if err != nil {
		return err
	}
	for i, result := range results {
		m := batch.Messages[i]
		if sequence, _, ours := w.run.Parse(m.TransactionID, m.Data); ours && result.Success {
			w.book.Acked(w.group, m.Partition, sequence)
		}
	}
	return nil
}

// outlive is a context that ends d after ctx does.
func outlive(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return longer, func() {
		stop()
		cancel()
	}
}
