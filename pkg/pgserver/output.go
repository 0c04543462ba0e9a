package pgserver

import (
	"strings"
	"sync"
)

// keptOutput is how much of the server's latest output an error can quote.
const keptOutput = 8 << 10

// outputTail keeps the end of what the server printed. It is written by os/exec's copying goroutine and read when a
// start goes wrong.
type outputTail struct {
	mu   sync.Mutex
	text []byte
}

// Write never fails.
func (o *outputTail) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	if extra := len(o.text) - keptOutput; extra > 0 {
		o.text = append(o.text[:0], o.text[extra:]...)
	}
	return len(p), nil
}

func (o *outputTail) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

// lastLines joins the last n non-empty lines, for an error of one line.
func lastLines(text string, n int) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, " | ")
}
