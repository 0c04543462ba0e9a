package local

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
)

const (
	// keptLines is how many last lines of a process an error or a crash report quotes.
	keptLines = 8
	// longestLine bounds what is held of a line without an end; the file gets all of it anyway.
	longestLine = 64 << 10
)

// processLog receives everything that one process prints: into its file as it comes, and line by line into the merged
// log. os/exec writes from one goroutine per run; the runner's own notes may come beside it.
type processLog struct {
	path    string
	name    string
	printer *printer

	mu      sync.Mutex
	file    *os.File
	partial []byte
	last    []string
	// panicked is the line that begins a Go crash; what follows is a trace whose last line says nothing.
	panicked string
}

// openLog begins a new file and keeps the one before as .1, because the reason of a crash is often looked for after
// the next start.
func openLog(path, name string, p *printer) (*processLog, error) {
	if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("keep the last log: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	return &processLog{path: path, name: name, printer: p, file: file}, nil
}

// Write never fails: a full disk must not stop the process whose output this is.
func (l *processLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.file.Write(p)
	l.partial = append(l.partial, p...)
	for {
		line, rest, found := bytes.Cut(l.partial, []byte{'\n'})
		if !found && len(l.partial) < longestLine {
			return len(p), nil
		}
		l.line(string(line))
		l.partial = append(l.partial[:0], rest...)
	}
}

func (l *processLog) line(text string) {
	text = strings.TrimRight(text, "\r")
	if l.panicked == "" && (strings.HasPrefix(text, "panic: ") || strings.HasPrefix(text, "fatal error: ")) {
		l.panicked = text
	}
	l.last = append(l.last, text)
	if len(l.last) > keptLines {
		l.last = l.last[1:]
	}
	l.printer.print(l.name, text)
}

// lastLines returns the last things the process said, a line without an end included.
func (l *processLog) lastLines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := append([]string(nil), l.last...)
	if len(l.partial) > 0 {
		lines = append(lines, string(l.partial))
	}
	return lines
}

// begin forgets what an earlier life said, so that it is not blamed on the next one.
func (l *processLog) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last, l.partial, l.panicked = nil, nil, ""
}

// lastWords is the one line that most likely says why the process ended; empty when it said nothing.
func (l *processLog) lastWords() string {
	l.mu.Lock()
	panicked := l.panicked
	l.mu.Unlock()
	if lines := l.lastLines(); panicked == "" && len(lines) > 0 {
		return strings.TrimSpace(lines[len(lines)-1])
	}
	return panicked
}

func (l *processLog) close() error { return l.file.Close() }
