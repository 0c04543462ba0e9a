package local

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// printerBuffer is how many lines may wait for a slow terminal before lines are dropped.
const printerBuffer = 8192

// colours are the escape codes of the prefixes, one per process in turn; all are readable on dark and light.
var colours = []int{36, 33, 35, 32, 34, 31, 96, 93, 95, 92}

// printer writes the merged log from one goroutine. Nobody who prints ever waits for the reader.
type printer struct {
	out     io.Writer
	colour  bool
	width   int
	colours map[string]int

	lines   chan printedLine // never closed: a late line is dropped, not a panic
	dropped atomic.Int64
	stop    chan struct{} // closed by close
	done    chan struct{} // closed by run at its end
}

type printedLine struct{ name, text string }

// newPrinter starts the goroutine; close ends it. A nil out drops everything.
func newPrinter(out io.Writer, colour bool, names []string) *printer {
	if out == nil {
		out = io.Discard
	}
	p := &printer{
		out: out, colour: colour, colours: map[string]int{},
		lines: make(chan printedLine, printerBuffer), stop: make(chan struct{}), done: make(chan struct{}),
	}
	for i, name := range names {
		p.width = max(p.width, len(name))
		p.colours[name] = colours[i%len(colours)]
	}
	go p.run()
	return p
}

func (p *printer) print(name, text string) {
	select {
	case p.lines <- printedLine{name, text}:
	default:
		p.dropped.Add(1)
	}
}

// run ignores write errors: the log of a stack whose terminal went away is still in the files.
func (p *printer) run() {
	defer close(p.done)
	for {
		select {
		case line := <-p.lines:
			p.write(line)
		case <-p.stop:
			for len(p.lines) > 0 {
				p.write(<-p.lines)
			}
			return
		}
	}
}

func (p *printer) write(line printedLine) {
	_, _ = io.WriteString(p.out, p.format(line))
	if n := p.dropped.Swap(0); n > 0 {
		note := fmt.Sprintf("%d lines were not shown here, they are in the log files", n)
		_, _ = io.WriteString(p.out, p.format(printedLine{runnerName, note}))
	}
}

func (p *printer) format(line printedLine) string {
	if code := p.colours[line.name]; p.colour && code != 0 {
		return fmt.Sprintf("\x1b[%dm%-*s |\x1b[0m %s\n", code, p.width, line.name, line.text)
	}
	return fmt.Sprintf("%-*s | %s\n", p.width, line.name, line.text)
}

// close writes what is still buffered. A reader that has stopped reading is not waited for: the goroutine is then left
// to the end of the program.
func (p *printer) close() {
	close(p.stop)
	limit := time.NewTimer(time.Second)
	defer limit.Stop()
	select {
	case <-p.done:
	case <-limit.C:
	}
}
