// Package room bounds how many bytes of pushes are in memory. A push takes room for its body as that arrives, and for
// what becomes of it until it is answered. Where there is none it waits, in the order of arrival, and not for long: then
// it is refused, so that the client comes again later, and memory stays bounded whatever the database does.
//
// A client takes room only for what it has sent, so that one which announces much and sends little keeps nobody out.
//
// # Concurrency
//
// A Room is safe for concurrent use and starts no goroutine; its queue is x/sync/semaphore's. Bodies that are read at the
// same time may each wait for room that the others hold. None does so for longer than its patience, and a push that is
// refused gives back all it had.
package room

import (
	"context"
	"io"
	"time"

	"golang.org/x/sync/semaphore"

	"queen.internal/pkg/queue"
)

// retryAfter is what a push that is refused is advised: by then several flushes have gone out.
const retryAfter = time.Second

// Room is so many bytes.
type Room struct {
	bytes    *semaphore.Weighted
	size     int64
	patience time.Duration
}

// New returns a Room of size bytes, for each part of which a push waits at most as long as patience. With none it does not
// wait.
func New(size int64, patience time.Duration) *Room {
	return &Room{bytes: semaphore.NewWeighted(size), size: size, patience: patience}
}

// Take takes n bytes, or all there are when that is less, and returns how many: Leave gives them back. The error is of
// kind Overloaded, or the context's cause.
func (r *Room) Take(ctx context.Context, n int64) (taken int64, err error) {
	n = min(n, r.size)
	if r.bytes.TryAcquire(n) {
		return n, nil
	}
	if r.patience > 0 {
		waiting, cancel := context.WithTimeout(ctx, r.patience)
		defer cancel()
		if r.bytes.Acquire(waiting, n) == nil {
			return n, nil
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
	return 0, queue.Overloaded("too many pushes are waiting for PostgreSQL", retryAfter)
}

// Leave gives back what was taken.
func (r *Room) Leave(taken int64) { r.bytes.Release(taken) }

// step is how much room a body takes at a time.
const step = 64 << 10

// Body reads inner, of an announced length or -1, and takes room as it arrives. An error of Take ends it. Once nothing of
// what was read is needed any more, leave gives the room back.
func (r *Room) Body(ctx context.Context, inner io.ReadCloser, length int64) (read io.ReadCloser, leave func()) {
	b := &body{ReadCloser: inner, next: step, most: r.size, take: func(n int64) (int64, error) { return r.Take(ctx, n) }}
	if length >= 0 {
		b.next = min(length+1, step) // one more is asked for, to see the end
	}
	return b, func() { r.Leave(b.taken) }
}

type body struct {
	io.ReadCloser

	take   func(n int64) (int64, error)
	next   int64 // to take
	most   int64 // that can be taken: a body larger than all the room goes on with that
	taken  int64
	credit int64 // taken and not yet read
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.credit == 0 && len(p) > 0 {
		taken, err := b.take(min(b.next, b.most-b.taken))
		if err != nil {
			return 0, err
		}
		b.taken += taken
		b.credit, b.next = b.next, step
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.credit)])
	b.credit -= int64(n)
	return n, err
}
