package sealing

import (
	"context"
	"errors"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"queen.internal/pkg/store/log"
)

const (
	// memory is how long a flag is believed. Believing an old one costs a detour, no secret; see the package comment.
	memory = 2 * time.Second

	// rememberedQueues bounds what is kept: about 200 bytes each with their names.
	rememberedQueues = 100_000

	// lookupDeadline bounds one lookup. A push whose lookup gets no answer goes on without it.
	lookupDeadline = 2 * time.Second
)

// Lookup asks the database for the flags of queues, in their order.
type Lookup func(ctx context.Context, queues []log.Queue) ([]log.Flags, error)

// flags remembers which queues have encryption on, and looks up what it does not remember.
type flags struct {
	lookup Lookup
	now    func() time.Time
	facts  *lru.Cache[log.Queue, fact] // has a lock of its own

	mu   sync.Mutex
	next *round          // collects queues until it begins; nil when nobody waits for it
	last <-chan struct{} // closed when the latest round has ended
}

// fact is what was known of a queue at a time.
type fact struct {
	encrypted bool
	at        time.Time
}

// round is one lookup. Whoever makes it closes done; answers and err are read after that.
type round struct {
	queues  []log.Queue
	places  map[log.Queue]int
	answers []log.Flags
	err     error
	done    chan struct{}
}

var errUnfinished = errors.New("look queues up: the lookup did not end")

func newFlags(lookup Lookup, now func() time.Time) *flags {
	facts, err := lru.New[log.Queue, fact](rememberedQueues)
	if err != nil {
		panic(err) // a constant, positive size
	}
	ended := make(chan struct{})
	close(ended)
	return &flags{lookup: lookup, now: now, facts: facts, last: ended}
}

// learn remembers what was true at a time.
func (f *flags) learn(q log.Queue, encrypted bool, at time.Time) {
	if old, known := f.facts.Peek(q); !known || !old.at.After(at) {
		f.facts.Add(q, fact{encrypted, at})
	}
}

// remembered says of each queue whether it has encryption on, false where that is not known; unknown are those.
func (f *flags) remembered(queues []log.Queue) (encrypted []bool, unknown []log.Queue) {
	encrypted = make([]bool, len(queues))
	now := f.now()
	for i, q := range queues {
		if known, ok := f.facts.Get(q); ok && now.Sub(known.at) < memory {
			encrypted[i] = known.encrypted
		} else {
			unknown = append(unknown, q)
		}
	}
	return encrypted, unknown
}

// of says of each queue whether it has encryption on, by memory or by a lookup. Errors have a kind, or are ctx's.
func (f *flags) of(ctx context.Context, queues []log.Queue) ([]bool, error) {
	encrypted, unknown := f.remembered(queues)
	if len(unknown) == 0 {
		return encrypted, nil
	}
	r := f.join(ctx, unknown)
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if r.err != nil {
		return nil, r.err
	}
	for i, q := range queues {
		if place, asked := r.places[q]; asked {
			encrypted[i] = r.answers[place].Encryption
		}
	}
	return encrypted, nil
}

// join adds queues to the next round, and makes that round if nobody does.
func (f *flags) join(ctx context.Context, queues []log.Queue) *round {
	f.mu.Lock()
	r, before := f.next, f.last
	leads := r == nil
	if leads {
		r = &round{places: map[log.Queue]int{}, err: errUnfinished, done: make(chan struct{})}
		f.next, f.last = r, r.done
	}
	for _, q := range queues {
		if _, there := r.places[q]; !there {
			r.places[q] = len(r.queues)
			r.queues = append(r.queues, q)
		}
	}
	f.mu.Unlock()
	if leads {
		f.work(ctx, r, before)
	}
	return r
}

func (f *flags) work(ctx context.Context, r *round, before <-chan struct{}) {
	defer close(r.done) // also when the lookup panics
	<-before
	f.mu.Lock()
	f.next = nil // from here on nobody joins
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupDeadline)
	defer cancel()
	at := f.now()
	r.answers, r.err = f.lookup(ctx, r.queues)
	if r.err != nil {
		return
	}
	for i, q := range r.queues {
		f.learn(q, r.answers[i].Encryption, at)
	}
}
