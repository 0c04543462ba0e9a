package drive

import (
	"context"
	"fmt"
	"hash/maphash"

	"golang.org/x/sync/errgroup"

	"queen.internal/compose/demo/internal/ledger"
	"queen.internal/compose/demo/internal/source"
	"queen.internal/pkg/client"
)

const (
	pushItems = 100     // of one request; more makes one answer wait for more partitions
	pushBytes = 4 << 20 // payload of one request, far below a broker's body limit
)

// parcel is a record with its place.
type parcel struct {
	partition string
	sequence  int
	payload   []byte
}

// produce pushes all records over n producers and closes the ledger.
func produce(ctx context.Context, o Options, l *ledger.Ledger, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	lanes := make([]chan parcel, n)
	for i := range lanes {
		lanes[i] = make(chan parcel, pushItems) // closed by the reader below
		group.Go(func() error { return (&producer{o: o, ledger: l, lane: lanes[i]}).run(ctx) })
	}
	group.Go(func() error {
		defer func() {
			for _, lane := range lanes {
				close(lane)
			}
		}()
		return distribute(ctx, o.Records, l, lanes)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	l.Close()
	return nil
}

// distribute gives each record its sequence and sends a partition's records through one lane.
func distribute(ctx context.Context, records source.Records, l *ledger.Ledger, lanes []chan parcel) error {
	seed := maphash.MakeSeed()
	for record, err := range records {
		if err != nil {
			return err
		}
		p := parcel{record.Partition, l.Send(record.Partition), record.Payload}
		select {
		case lanes[maphash.String(seed, p.partition)%uint64(len(lanes))] <- p:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

type producer struct {
	o      Options
	ledger *ledger.Ledger
	lane   <-chan parcel
}

// run sends what has gathered while the last request was under way; it ends when the lane is closed and empty.
func (p *producer) run(ctx context.Context) error {
	for {
		select {
		case first, ok := <-p.lane:
			if !ok {
				return nil
			}
			if err := p.push(ctx, p.gather(first)); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (p *producer) gather(first parcel) []parcel {
	parcels, size := []parcel{first}, len(first.payload)
	for len(parcels) < pushItems && size < pushBytes {
		select {
		case next, ok := <-p.lane:
			if !ok {
				return parcels
			}
			parcels, size = append(parcels, next), size+len(next.payload)
		default:
			return parcels
		}
	}
	return parcels
}

func (p *producer) push(ctx context.Context, parcels []parcel) error {
	items := make([]client.Item, len(parcels))
	for i, parcel := range parcels {
		items[i] = client.Item{
			Queue: p.o.Queue, Partition: parcel.partition, Payload: parcel.payload,
			TransactionID: p.o.Run.TransactionID(parcel.sequence, parcel.payload),
		}
	}
	results, err := p.o.Client.Push(ctx, items)
	if err != nil {
		return err
	}
	for i, result := range results {
		switch {
		case result.Status == client.Failed:
			return fmt.Errorf("push to partition %q: %s", parcels[i].partition, result.Error)
		case result.Status == client.Duplicate && p.o.Again:
			p.ledger.Already()
		default: // a duplicate in a run that is new comes from a request of our own whose answer was lost
			p.ledger.Stored(parcels[i].partition, parcels[i].sequence)
		}
	}
	return nil
}
