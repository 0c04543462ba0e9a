package pg_test

import (
	"context"
	"log/slog"
	"sync"
)

// records collects what is logged, and calls seen for each message when it is set.
type records struct {
	seen func(message string)

	mu   sync.Mutex
	list []string
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }

func (r *records) Handle(_ context.Context, record slog.Record) error {
	text := record.Level.String() + " " + record.Message
	record.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	r.mu.Lock()
	r.list = append(r.list, text)
	r.mu.Unlock()
	if r.seen != nil {
		r.seen(record.Message)
	}
	return nil
}

func (r *records) WithAttrs([]slog.Attr) slog.Handler { return r }

func (r *records) WithGroup(string) slog.Handler { return r }

func (r *records) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.list...)
}
