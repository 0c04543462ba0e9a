package main

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// lines is a log that tests wait on.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{}
}

func newLines() *lines { return &lines{more: make(chan struct{})} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.more)
	l.more = make(chan struct{})
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// wait returns the first line that contains every part.
func (l *lines) wait(t *testing.T, parts ...string) string {
	t.Helper()
	deadline := time.After(patience)
	for {
		l.mu.Lock()
		text, more := l.text.String(), l.more
		l.mu.Unlock()
	search:
		for line := range strings.Lines(text) {
			for _, part := range parts {
				if !strings.Contains(line, part) {
					continue search
				}
			}
			return line
		}
		select {
		case <-more:
		case <-deadline:
			t.Fatalf("no log line has %q", parts)
		}
	}
}
