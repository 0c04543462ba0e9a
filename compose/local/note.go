package local

import (
	"context"
	"log/slog"
	"strings"
)

// noteHandler turns log records into the runner's lines: a person reads them at the terminal, beside the services' own.
type noteHandler struct {
	note  func(format string, args ...any)
	attrs []slog.Attr
}

// Enabled lets everything from INFO on through.
func (h *noteHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

// Handle prints message and attributes; which part of the program speaks is of no interest here.
func (h *noteHandler) Handle(_ context.Context, record slog.Record) error {
	var text strings.Builder
	text.WriteString(record.Message)
	add := func(attr slog.Attr) bool {
		if attr.Key != "target" {
			text.WriteString(" " + attr.String())
		}
		return true
	}
	for _, attr := range h.attrs {
		add(attr)
	}
	record.Attrs(add)
	h.note("%s", text.String())
	return nil
}

// WithAttrs keeps attributes for every record.
func (h *noteHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &noteHandler{note: h.note, attrs: append(append([]slog.Attr(nil), h.attrs...), attrs...)}
}

// WithGroup is not needed for lines read by people.
func (h *noteHandler) WithGroup(string) slog.Handler { return h }
