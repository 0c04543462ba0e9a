package ready

import (
	"context"
	"errors"
	"sync"
	"time"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
)

const (
	// lookLimit is how many partitions written lately one call walks for each ring, walkLimit how many of all.
	lookLimit = 1000
	walkLimit = 5000

	// lookGroups is how many rings one call asks about.
	lookGroups = 500

	// lookers is how many such calls are under way at once. Walks over all partitions are made one at a time, page by page
	// and ring after ring, however many rings begin at once.
	lookers = 2
)

// finder asks the store about many rings in one call: what comes up while calls are under way goes together with the
// next. Its goroutines are started and awaited by run.
type finder struct {
	store   Store
	timeout time.Duration
	bounds  func() group.Bounds

	looks, walks lane

	mu      sync.Mutex
	horizon horizon
	onFall  func() // the database's time, or its transactions, have fallen back
}

// lane is questions of one kind that wait.
type lane struct {
	wake chan struct{} // holds one: somebody has asked

	mu      sync.Mutex
	waiting []*question
}

// question is one ring's, and its answer once done is closed.
type question struct {
	search group.Search
	done   chan struct{} // closed by who answers

	asked time.Time // own time at which the call began
	clock time.Time // of the database, as claims compare with it
	from  time.Time // by the database's clock: from then on there may be writes that the answer does not show
	found group.Found
	err   error
}

// due is when the lease of a candidate that has one ends, by our own clock. The claim compares strictly.
func (q *question) due(c group.Candidate) time.Time {
	return q.asked.Add(c.Until.Sub(q.clock) + time.Millisecond)
}

func newFinder(store Store, options Options, onFall func()) *finder {
	f := &finder{store: store, timeout: options.Timeout, bounds: options.Clock, onFall: onFall}
	f.looks.wake, f.walks.wake = make(chan struct{}, lookers), make(chan struct{}, 1)
	return f
}

// run answers until ctx ends.
func (f *finder) run(ctx context.Context) {
	var workers sync.WaitGroup
	for range lookers {
		workers.Go(func() { f.work(ctx, &f.looks, lookGroups, lookLimit) })
	}
	workers.Go(func() { f.work(ctx, &f.walks, 1, walkLimit) })
	workers.Wait()
}

func (f *finder) work(ctx context.Context, lane *lane, groups, limit int) {
	for {
		select {
		case <-lane.wake:
		case <-ctx.Done():
			return
		}
		for batch := lane.take(groups); len(batch) > 0; batch = lane.take(groups) {
			f.call(ctx, batch, limit)
		}
	}
}

// find asks and waits for the answer. Errors have a kind, or are that ctx was cancelled.
func (f *finder) find(ctx context.Context, search group.Search) (*question, error) {
	q := &question{search: search, done: make(chan struct{})}
	if search.From.Everywhere() {
		f.walks.put(q)
	} else {
		f.looks.put(q)
	}
	select {
	case <-q.done:
		return q, q.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, queue.Unavailable("the database is not available", time.Second, ctx.Err())
		}
		return nil, ctx.Err()
	}
}

func (l *lane) put(q *question) {
	l.mu.Lock()
	l.waiting = append(l.waiting, q)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default: // whoever takes what is there sees this, too
	}
}

func (l *lane) take(n int) []*question {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, len(l.waiting))
	taken := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	if len(l.waiting) == 0 {
		l.waiting = nil
	}
	return taken
}

func (f *finder) call(ctx context.Context, batch []*question, limit int) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	searches := make([]group.Search, len(batch))
	for i, q := range batch {
		searches[i] = q.search
	}
	asked, bounds := time.Now(), f.bounds()
	found, snapshot, err := f.store.Find(ctx, searches, limit, bounds)
	var from time.Time
	if err == nil {
		from = f.see(snapshot, asked)
	}
	clock := bounds.Now(snapshot.Clock)
	for i, q := range batch {
		q.asked, q.clock, q.from, q.err = asked, clock, from, err
		if err == nil {
			q.found = found[i]
		}
		close(q.done)
	}
}

// see takes a snapshot and tells from when on there may be writes that it does not show.
func (f *finder) see(snapshot group.Snapshot, asked time.Time) time.Time {
	f.mu.Lock()
	fell := f.horizon.add(snapshot, asked, time.Now())
	from := f.horizon.of(snapshot)
	f.mu.Unlock()
	if fell {
		f.onFall()
	}
	return from
}
