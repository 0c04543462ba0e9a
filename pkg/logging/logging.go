// Package logging writes the log lines that operators read and grep: `<time> LEVEL target: message key=value …`, or one
// flat JSON object per line. Loggers are passed in, never global; a part of a service names itself with For.
//
// A logger may be used by any number of goroutines. A line is built without a lock and written with one Write under a
// mutex, so lines never mix; a slow writer therefore slows whoever logs.
package logging

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// TargetKey is the attribute that names the part of the service a line comes from.
const TargetKey = "target"

// defaultTarget stands in lines of loggers that nobody gave a target.
const defaultTarget = "queen"

// Settings say what is written and how.
type Settings struct {
	Filter string // "info" or "info,pool=debug"; an unreadable filter means info
	JSON   bool   // one flat object per line
}

// New is a logger that writes one line per record to w, each with a single Write.
func New(w io.Writer, s Settings) *slog.Logger {
	return slog.New(&handler{
		out:    &output{w: w, json: s.JSON, filter: parseFilter(s.Filter), now: nil},
		target: defaultTarget,
	})
}

// For is logger for the part of the service with that name.
func For(logger *slog.Logger, target string) *slog.Logger { return logger.With(TargetKey, target) }

// output is what all loggers that come from one New share.
type output struct {
	json   bool
	filter filter
	now    func() time.Time // replaces the record's time in tests

	mu sync.Mutex // held during the Write
	w  io.Writer
}

// handler is one logger: a target, and attributes already in their final form.
type handler struct {
	out    *output
	target string
	group  string // prefix of the keys that follow, "a.b."
	attrs  []byte // encoded by the output's form
}

// Enabled says whether a line of this level would be written. A target given with the record itself, not with the
// logger, is judged in Handle.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.out.filter.level(h.target)
}

// WithAttrs is the handler with attributes that every later line carries.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.attrs = slices.Clone(h.attrs)
	for _, attr := range attrs {
		if next.group == "" && attr.Key == TargetKey {
			next.target = attr.Value.Resolve().String()
			continue
		}
		next.attrs = next.out.appendAttr(next.attrs, next.group, attr)
	}
	return &next
}

// WithGroup is the handler that prefixes later keys with the group's name.
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	next := *h
	next.group += name + "."
	return &next
}

var lines = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

// Handle writes the record as one line.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	target, level := h.target, r.Level
	if h.group == "" {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == TargetKey {
				target = a.Value.Resolve().String()
			}
			return true
		})
		if target != h.target && level < h.out.filter.level(target) {
			return nil
		}
	}
	buf := lines.Get().(*[]byte)
	defer lines.Put(buf)
	line := h.out.appendHead((*buf)[:0], r, target)
	line = append(line, h.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		if h.group != "" || a.Key != TargetKey {
			line = h.out.appendAttr(line, h.group, a)
		}
		return true
	})
	line = h.out.appendTail(line)
	*buf = line
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	_, err := h.out.w.Write(line)
	return err
}
