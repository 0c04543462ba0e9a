package journal_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"queen.internal/test/chaos/internal/journal"
)

func TestEveryCallHasABeginAndAnEnd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.jsonl")
	j, err := journal.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	for i := range 20 {
		calls.Go(func() {
			ended := j.Begin("push", "c", "edge", map[string]int{"n": i})
			if i%2 == 0 {
				ended(journal.OK, "queued", nil)
			} else {
				ended(journal.Unknown, nil, errors.New("no answer"))
			}
		})
	}
	calls.Wait()
	open := j.Begin("pop", "c", "edge", nil)
	if j.Open() != 1 || j.Count("push", journal.OK) != 10 || j.Count("push", journal.Unknown) != 10 || j.Count("pop", journal.OK) != 0 {
		t.Errorf("%d open, %d and %d", j.Open(), j.Count("push", journal.OK), j.Count("push", journal.Unknown))
	}
	open(journal.Fail, nil, nil)
	j.Note("the end of %s", "it")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	events, micros := map[int][]string{}, int64(0)
	for line := range strings.Lines(string(raw)) {
		var l journal.Line
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Micros < micros {
			t.Fatalf("%s: %v", line, err)
		}
		micros = l.Micros
		events[l.Call] = append(events[l.Call], l.Event)
	}
	for call := 1; call <= 21; call++ {
		if len(events[call]) != 2 || events[call][0] != "begin" || events[call][1] != "end" {
			t.Errorf("call %d: %v", call, events[call])
		}
	}
	if len(events[0]) != 1 || events[0][0] != "note" {
		t.Errorf("%v", events[0])
	}
}
