package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// gate is a reader of the merged log that does not read until it is opened.
type gate struct {
	record
	reached chan struct{} // gets one value when the first write has begun
	open    chan struct{} // closed by the test
}

func (g *gate) Write(p []byte) (int, error) {
	select {
	case g.reached <- struct{}{}:
	default:
	}
	<-g.open
	return g.record.Write(p)
}

func TestPrinter(t *testing.T) {
	t.Parallel()

	t.Run("AlignsPrefixes", func(t *testing.T) {
		t.Parallel()
		out := &record{}
		p := newPrinter(out, false, []string{"edge", "ingest.10"})
		p.print("edge", "one")
		p.print("ingest.10", "two")
		p.close()
		if diff := cmp.Diff("edge      | one\ningest.10 | two\n", out.String()); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("ColoursOnlyThePrefix", func(t *testing.T) {
		t.Parallel()
		out := &record{}
		p := newPrinter(out, true, []string{"edge"})
		p.print("edge", "text")
		p.close()
		if diff := cmp.Diff("\x1b[36medge |\x1b[0m text\n", out.String()); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("DropsAndCountsRatherThanWaitingForItsReader", func(t *testing.T) {
		t.Parallel()
		out := &gate{reached: make(chan struct{}, 1), open: make(chan struct{})}
		p := newPrinter(out, false, []string{"edge"})
		p.print("edge", "held by the reader")
		<-out.reached
		for range printerBuffer + 3 {
			p.print("edge", "more")
		}
		close(out.open)
		p.close()
		text := out.String()
		if n := strings.Count(text, "more\n"); n != printerBuffer {
			t.Errorf("%d of %d lines arrived", n, printerBuffer)
		}
		if !strings.Contains(text, "3 lines were not shown here") {
			t.Error("nothing says how many were dropped")
		}
		p.print("edge", "late") // must not panic
	})
}

func TestProcessLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "edge.log")
	if err := os.WriteFile(path, []byte("the run before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := &record{}
	p := newPrinter(out, false, []string{"edge"})
	log, err := openLog(path, "edge", p)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", longestLine)
	pieces := []string{"1\n2\n", "3", " and its end\r\n", "4\n5\n6\n7\n8\n9\n", long, "\nno end"}
	for _, piece := range pieces {
		if n, err := log.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", piece, n, err)
		}
	}
	p.close()
	if diff := cmp.Diff([]string{"4", "5", "6", "7", "8", "9", long, "", "no end"}, log.lastLines()); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(out.String(), "edge | 3 and its end\nedge | 4\n") {
		t.Errorf("lines in pieces were merged wrongly: %.200q", out.String())
	}
	if got := log.lastWords(); got != "no end" {
		t.Errorf("last words %q", got)
	}
	log.begin()
	if got := log.lastWords(); got != "" || log.lastLines() != nil {
		t.Errorf("words of an earlier life: %q, %q", got, log.lastLines())
	}
	trace := "panic: no such thing [recovered]\n\tpanic: again\n\ngoroutine 1 [running]:\nmain.main()\n\tmain.go:3 +0x1d\n"
	pieces = append(pieces, trace)
	_, _ = log.Write([]byte(trace))
	if got := log.lastWords(); got != "panic: no such thing [recovered]" {
		t.Errorf("last words of a crash: %q", got)
	}
	if err := log.close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{path: strings.Join(pieces, ""), path + ".1": "the run before\n"} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s does not hold what was printed, %v", name, err)
		}
	}
}
