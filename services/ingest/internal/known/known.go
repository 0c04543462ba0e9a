// Package known keeps what has to be known of queues while the database is away: which want their payloads encrypted, and
// which prefer failure to the spool. Most queues are neither, so the list is short, and it lies beside the spool for a
// process that starts while the database is down. It is a hint that may be a minute old: append decides by what is in force
// when it writes.
//
// # Concurrency
//
// The list is replaced as a whole and never changed, so reading it takes no lock. Run is the one that replaces it; it
// starts no goroutine and ends with its context.
package known

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/files"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/store/log"
)

// The list is read anew that often, and at most that often when changes are told of.
const (
	refreshEvery = time.Minute
	refreshPause = 500 * time.Millisecond
	readTime     = 5 * time.Second
)

// List asks the database.
type List func(ctx context.Context) ([]log.Flagged, error)

// Queues is the list. It is safe for concurrent use.
type Queues struct {
	list   List
	path   string
	ready  <-chan struct{} // closed when the database can be asked
	logger *slog.Logger

	flags atomic.Pointer[map[log.Queue]log.Flagged]
	wake  chan struct{} // capacity 1
	saved []byte        // what lies at path; of Run
}

// Open reads the list that an earlier process has left at path, if there is one. A list that cannot be read counts as none.
func Open(path string, list List, ready <-chan struct{}, logger *slog.Logger) *Queues {
	q := &Queues{list: list, path: path, ready: ready, logger: logger, wake: make(chan struct{}, 1)}
	q.set(nil)
	data, err := os.ReadFile(path)
	var found []entry
	if err == nil {
		err = json.Unmarshal(data, &found)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		logger.Warn("the list of queues beside the spool cannot be read", "err", err)
	default:
		q.saved = data
		var flagged []log.Flagged
		for _, e := range found {
			flagged = append(flagged, log.Flagged{Queue: log.Queue{Tenant: e.Tenant, Name: e.Queue}, Encryption: e.Encryption, NoSpool: e.NoSpool})
		}
		q.set(flagged)
	}
	return q
}

// entry is a queue in the file.
type entry struct {
	Tenant     uuid.UUID `json:"tenant"`
	Queue      string    `json:"queue"`
	Encryption bool      `json:"encryption,omitempty"`
	NoSpool    bool      `json:"noSpool,omitempty"`
}

func (q *Queues) set(flagged []log.Flagged) {
	flags := make(map[log.Queue]log.Flagged, len(flagged))
	for _, f := range flagged {
		flags[f.Queue] = f
	}
	q.flags.Store(&flags)
}

// Encrypted says that a queue wants encrypted payloads, as far as is known.
func (q *Queues) Encrypted(tenant uuid.UUID, name string) bool {
	return (*q.flags.Load())[log.Queue{Tenant: tenant, Name: name}].Encryption
}

// NoSpool says that a queue prefers failure to the spool, as far as is known.
func (q *Queues) NoSpool(tenant uuid.UUID, name string) bool {
	return (*q.flags.Load())[log.Queue{Tenant: tenant, Name: name}].NoSpool
}

// Refresh has Run read the list soon: a queue has changed.
func (q *Queues) Refresh() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Run reads the list every minute and when it is told to, until ctx ends.
func (q *Queues) Run(ctx context.Context) error {
	select {
	case <-q.ready:
	case <-ctx.Done():
		return nil
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-q.wake:
			// Changes come in bursts: one reading for all of them.
			timer.Reset(max(refreshPause-time.Since(last), 0))
			continue
		case <-timer.C:
		}
		last = time.Now()
		if err := q.read(ctx); err != nil && ctx.Err() == nil {
			q.logger.Debug("read which queues have flags", "err", pg.Reason(err))
		}
		timer.Reset(refreshEvery)
	}
}

func (q *Queues) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	flagged, err := q.list(ctx)
	if err != nil {
		return err
	}
	q.set(flagged)
	if err := q.save(flagged); err != nil {
		q.logger.Warn("keep the list of queues beside the spool", "err", err)
	}
	return nil
}

// save replaces the file, when the list is another one.
func (q *Queues) save(flagged []log.Flagged) error {
	entries := make([]entry, 0, len(flagged))
	for _, f := range flagged {
		entries = append(entries, entry{Tenant: f.Tenant, Queue: f.Name, Encryption: f.Encryption, NoSpool: f.NoSpool})
	}
	data, err := json.Marshal(entries)
	if err != nil || string(data) == string(q.saved) {
		return err
	}
	if err := files.Replace(q.path, data); err != nil { // several processes may do this at once, with the same list
		return err
	}
	q.saved = data
	return nil
}
