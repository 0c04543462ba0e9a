// Package journal writes what happens in a run to a file, one JSON object a line: the begin and the end of every call of
// a client, the faults, the samples. It is for whoever has to understand a run; the judgement is made from the same
// calls in memory.
//
// Concurrency: one mutex around the file. Calls may begin and end in any goroutine.
package journal

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// The outcomes of calls. Unknown is a call without an answer, or with one that does not tell whether it was carried out.
const (
	OK      = "ok"
	Fail    = "fail"
	Unknown = "unknown"
)

// Journal is one file.
type Journal struct {
	started time.Time

	mu   sync.Mutex
	file *os.File
	out  *bufio.Writer
	next int
	open int
	err  error // the first
	// outcomes counts ended calls by kind and outcome.
	outcomes map[string]int
}

// Line is what a line holds besides its time.
type Line struct {
	Micros  int64  `json:"us"` // since the begin of the run, monotonic
	Wall    string `json:"wall"`
	Event   string `json:"event"`          // begin, end, fault, sample, note
	Call    int    `json:"call,omitempty"` // joins begin and end
	Kind    string `json:"kind,omitempty"`
	Client  string `json:"client,omitempty"`
	Target  string `json:"target,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Text    string `json:"text,omitempty"`
	Data    any    `json:"data,omitempty"`
}

// Create makes the file.
func Create(path string) (*Journal, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create the journal: %w", err)
	}
	return &Journal{started: time.Now(), file: file, out: bufio.NewWriterSize(file, 256<<10), outcomes: make(map[string]int)}, nil
}

// Write adds a line.
func (j *Journal) Write(l Line) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.write(l)
}

func (j *Journal) write(l Line) {
	now := time.Now()
	l.Micros, l.Wall = now.Sub(j.started).Microseconds(), now.UTC().Format("15:04:05.000000")
	raw, err := json.Marshal(l)
	if err == nil {
		_, err = j.out.Write(append(raw, '\n'))
	}
	if err != nil && j.err == nil {
		j.err = fmt.Errorf("write the journal: %w", err)
	}
}

// Note adds a line of text.
func (j *Journal) Note(format string, args ...any) {
	j.Write(Line{Event: "note", Text: fmt.Sprintf(format, args...)})
}

// Begin notes that a call begins. What it returns notes its end.
func (j *Journal) Begin(kind, client, target string, data any) func(outcome string, answer any, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.next++
	j.open++
	call := j.next
	j.write(Line{Event: "begin", Call: call, Kind: kind, Client: client, Target: target, Data: data})
	return func(outcome string, answer any, err error) {
		l := Line{Event: "end", Call: call, Kind: kind, Client: client, Target: target, Outcome: outcome, Data: answer}
		if err != nil {
			l.Text = err.Error()
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		j.open--
		j.outcomes[kind+" "+outcome]++
		j.write(l)
	}
}

// Open is how many calls are under way.
func (j *Journal) Open() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.open
}

// Count is how many calls of a kind have ended so.
func (j *Journal) Count(kind, outcome string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.outcomes[kind+" "+outcome]
}

// Close writes the rest and tells the first error there was.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.err, j.out.Flush(), j.file.Close())
}
