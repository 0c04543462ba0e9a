package known

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"queen.internal/pkg/store/log"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var tenant, other = uuid.UUID{1}, uuid.UUID{2}

// asked is a database that counts its answers.
type asked struct {
	flagged []log.Flagged
	err     error
	times   chan int
	n       int
}

func (a *asked) list(context.Context) ([]log.Flagged, error) {
	a.n++
	a.times <- a.n
	return a.flagged, a.err
}

func always() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestTheListOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "queues.json")
	db := &asked{times: make(chan int, 100), flagged: []log.Flagged{
		{Queue: log.Queue{Tenant: tenant, Name: "secret"}, Encryption: true}, {Queue: log.Queue{Tenant: tenant, Name: "loud \"one\""}, NoSpool: true},
	}}
	q := Open(path, db.list, always(), slog.New(slog.DiscardHandler))
	if q.Encrypted(tenant, "secret") {
		t.Error("known before anybody said so")
	}
	if err := q.read(t.Context()); err != nil {
		t.Fatal(err)
	}
	db.err, db.flagged = errors.New("away"), nil
	for _, q := range []*Queues{q, Open(path, db.list, always(), slog.New(slog.DiscardHandler))} {
		if err := q.read(t.Context()); err == nil {
			t.Error("no error")
		}
		if !q.Encrypted(tenant, "secret") || q.NoSpool(tenant, "secret") || !q.NoSpool(tenant, `loud "one"`) || q.Encrypted(other, "secret") || q.NoSpool(tenant, "none") {
			t.Error("what is known differs")
		}
	}
	db.err = nil
	if err := q.read(t.Context()); err != nil || q.Encrypted(tenant, "secret") {
		t.Errorf("still known after the list was emptied, %v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestAListThatCannotBeReadIsNone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "queues.json")
	if err := os.WriteFile(path, []byte(`[{"tenant":`), 0o600); err != nil {
		t.Fatal(err)
	}
	db := &asked{times: make(chan int, 100)}
	if q := Open(path, db.list, always(), slog.New(slog.DiscardHandler)); q.NoSpool(tenant, "q") {
		t.Error("made up")
	}
}

func TestAChangeIsReadSoon(t *testing.T) {
	t.Parallel()
	db := &asked{times: make(chan int, 100)}
	ready := make(chan struct{})
	q := Open(filepath.Join(t.TempDir(), "queues.json"), db.list, ready, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	q.Refresh()
	q.Refresh() // not before the database can be asked, and not twice
	close(ready)
	limit := time.After(time.Minute / 2)
	for want := 1; want <= 2; want++ {
		select {
		case got := <-db.times:
			if got != want {
				t.Fatalf("reading %d, want %d", got, want)
			}
		case <-limit:
			t.Fatal("the list was not read")
		}
		q.Refresh()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
