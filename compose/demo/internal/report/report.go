// Package report shows a run to a person: a line of progress while it goes on, and a table at its end.
package report

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"queen.internal/compose/demo/internal/drive"
	"queen.internal/compose/demo/internal/ledger"
)

// Table writes the outcome: a column per group, a row per count.
func Table(w io.Writer, o drive.Outcome) {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	row := func(label string, cell func(ledger.Group) string) {
		fmt.Fprint(t, label, strings.Repeat(" ", max(0, 16-len(label))), "\t")
		for _, g := range o.Groups {
			fmt.Fprint(t, cell(g), "\t")
		}
		fmt.Fprintln(t)
	}
	count := func(pick func(ledger.Group) int) func(ledger.Group) string {
		return func(g ledger.Group) string { return grouped(pick(g)) }
	}
	row("", func(g ledger.Group) string { return g.Name })
	row("messages in", count(func(ledger.Group) int { return o.Messages }))
	row("delivered", count(func(g ledger.Group) int { return g.Delivered }))
	row("redelivered", count(func(g ledger.Group) int { return g.Redelivered }))
	row("out of order", count(func(g ledger.Group) int { return g.OutOfOrder }))
	missing := "lost"
	if o.Cut {
		missing = "not yet acked"
	}
	row(missing, count(func(g ledger.Group) int { return g.Missing }))
	row("altered", count(func(g ledger.Group) int { return g.Altered + g.Unknown }))
	row("messages/s", func(g ledger.Group) string { return rate(g.Acked, o.FirstPush, g.LastAck) })
	_ = t.Flush() // a terminal that is gone is told by nothing

	fmt.Fprintf(w, "\npushed to %s partitions", grouped(o.Partitions))
	if o.Messages > 0 {
		fmt.Fprintf(w, " at %s messages/s", rate(o.Messages, o.FirstPush, o.LastPush))
	}
	if o.Already > 0 {
		fmt.Fprintf(w, "; %s were there already, from an earlier run of this name", grouped(o.Already))
	}
	fmt.Fprintln(w)
	if o.Held > 0 {
		fmt.Fprintf(w, "killed one worker of %s, which held %s messages under its lease", o.Death.Group, grouped(o.Held))
		for _, g := range o.Groups {
			if g.Name == o.Death.Group && g.Redelivered > 0 {
				fmt.Fprintf(w, "; they came again %.1f s later", g.FirstAgain.Sub(o.At).Seconds())
			}
		}
		fmt.Fprintln(w)
	}
}

func rate(n int, from, to time.Time) string {
	seconds := to.Sub(from).Seconds()
	if n == 0 || seconds <= 0 {
		return "-"
	}
	return grouped(int(float64(n) / seconds))
}

// grouped writes 1234567 as "1 234 567".
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + " " + text[i:]
	}
	return text
}

// Progress is one line, written over on a terminal and repeated elsewhere.
type Progress struct {
	w        io.Writer
	terminal bool
	width    int
}

// NewProgress shows progress on w.
func NewProgress(w io.Writer) *Progress {
	p := &Progress{w: w}
	if file, ok := w.(*os.File); ok {
		info, err := file.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// Show writes the state of the run.
func (p *Progress) Show(t ledger.Totals) {
	var line strings.Builder
	fmt.Fprintf(&line, "pushed %s", grouped(t.Messages))
	for _, g := range t.Groups {
		fmt.Fprintf(&line, " · %s %s", g.Name, grouped(g.Acked))
		if g.Redelivered > 0 {
			fmt.Fprintf(&line, " (%s again)", grouped(g.Redelivered))
		}
	}
	fmt.Fprintf(&line, " · faults %d", t.Faults(false))
	text := line.String()
	if !p.terminal {
		fmt.Fprintln(p.w, text)
		return
	}
	fmt.Fprintf(p.w, "\r%s%s", text, strings.Repeat(" ", max(0, p.width-len(text))))
	p.width = len(text)
}

// End leaves the progress line.
func (p *Progress) End() {
	if p.width > 0 {
		fmt.Fprintln(p.w)
	}
}
