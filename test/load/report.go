package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"text/tabwriter"

	"queen.internal/test/load/internal/ledger"
	"queen.internal/test/load/internal/turn"
	"queen.internal/test/load/internal/verdict"
)

// report is everything a run found.
type report struct {
	Queue      string                    `json:"queue"`
	SyncMillis []float64                 `json:"fsync_ms"`
	Turns      []turn.Figures            `json:"turns"`
	Yardsticks map[string][]turn.Figures `json:"yardsticks,omitempty"`
	Sent       uint64                    `json:"sent"`
	Doubtful   uint64                    `json:"doubtful"` // of them nobody knows whether they were stored
	Groups     []ledger.Judgement        `json:"groups,omitempty"`
}

// write prints the table, or writes JSON.
func (r *report) write(out io.Writer, path string) error {
	if path != "" {
		raw, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
		raw = append(raw, '\n')
		if path == "-" {
			_, err = out.Write(raw)
			return err
		}
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return r.print(out)
}

// print is the table of the medians over all turns.
func (r *report) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "queue %s, %d turns, fsync %.2f ms\n\n", r.Queue, len(r.Turns), verdict.Median(r.SyncMillis))
	for _, line := range []struct {
		name   string
		figure func(turn.Figures) float64
	}{
		{"pushed", func(f turn.Figures) float64 { return f.Pushed }},
		{"popped", func(f turn.Figures) float64 { return f.Popped }},
		{"acked", func(f turn.Figures) float64 { return f.Acked }},
		{"calls", func(f turn.Figures) float64 { return f.Calls }},
	} {
		fmt.Fprintf(w, "%s\t%.0f /s\n", line.name, median(r.Turns, line.figure))
	}
	fmt.Fprint(w, "\nms\tp50\tp90\tp99\tp99.9\tmax\n")
	for _, name := range []string{"push", "pop", "ack", "delivered"} {
		at := func(pick func(turn.Times) float64) float64 {
			return median(r.Turns, func(f turn.Figures) float64 { return pick(f.Latencies[name]) })
		}
		if _, timed := r.Turns[0].Latencies[name]; timed {
			fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\n", name, at(func(t turn.Times) float64 { return t.P50 }), at(func(t turn.Times) float64 { return t.P90 }),
				at(func(t turn.Times) float64 { return t.P99 }), at(func(t turn.Times) float64 { return t.P999 }), at(func(t turn.Times) float64 { return t.Max }))
		}
	}
	fmt.Fprint(w, "\nprocess\tcores\tpeak MB\n")
	for i, u := range r.Turns[0].Usage {
		fmt.Fprintf(w, "%s\t%.2f\t%.0f\n", u.Name, median(r.Turns, func(f turn.Figures) float64 { return f.Usage[i].CPU / f.Seconds }),
			median(r.Turns, func(f turn.Figures) float64 { return float64(f.Usage[i].Peak) / (1 << 20) }))
	}
	fmt.Fprintf(w, "this program\t%.2f\n", median(r.Turns, func(f turn.Figures) float64 { return f.Generator }))
	fmt.Fprintf(w, "others\t%.2f\n", median(r.Turns, func(f turn.Figures) float64 { return f.Others }))
	r.printYardsticks(w)
	r.printExactness(w)
	return w.Flush()
}

func (r *report) printYardsticks(w io.Writer) {
	if len(r.Yardsticks) == 0 {
		return
	}
	fmt.Fprint(w, "\nyardstick\tmessages/s\tp50 ms\tp99 ms\tpushed to it\tacked to it\tdelivered p50, p99 to it\n")
	stored := func(f turn.Figures) float64 { return f.Stored }
	for _, name := range slices.Sorted(maps.Keys(r.Yardsticks)) {
		yard := r.Yardsticks[name]
		p50 := func(f turn.Figures) float64 { return f.Latencies["statement"].P50 }
		p99 := func(f turn.Figures) float64 { return f.Latencies["statement"].P99 }
		fmt.Fprintf(w, "%s\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%.1f, %.1f\n", name, median(yard, stored), median(yard, p50), median(yard, p99),
			ratios(r.Turns, yard, func(f turn.Figures) float64 { return f.Pushed }, stored),
			ratios(r.Turns, yard, func(f turn.Figures) float64 { return f.Acked }, stored),
			ratios(r.Turns, yard, func(f turn.Figures) float64 { return f.Latencies["delivered"].P50 }, p50),
			ratios(r.Turns, yard, func(f turn.Figures) float64 { return f.Latencies["delivered"].P99 }, p99))
	}
}

func (r *report) printExactness(w io.Writer) {
	fmt.Fprintf(w, "\nsent %d, of unknown fate %d\n", r.Sent, r.Doubtful)
	if len(r.Groups) == 0 {
		return
	}
	fmt.Fprint(w, "group\tdelivered\tlost\tout of order\tduplicates\tforeign or altered\tnot read\n")
	for i, g := range r.Groups {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%d\n", i+1, g.Delivered, g.Lost, g.Late, g.Duplicates, g.Strange, g.Left)
	}
}

func median(turns []turn.Figures, figure func(turn.Figures) float64) float64 {
	var all []float64
	for _, f := range turns {
		all = append(all, figure(f))
	}
	return verdict.Median(all)
}

// verdict is an error when a call failed or a promise was broken.
func (r *report) verdict() error {
	for _, f := range r.Turns {
		if f.Failed > 0 {
			return fmt.Errorf("%d calls failed, the first: %s", f.Failed, f.Problem)
		}
	}
	for i, g := range r.Groups {
		if g.Faults() > 0 {
			return fmt.Errorf("group %d: %d lost, %d out of order, %d duplicates, %d foreign or altered", i+1, g.Lost, g.Late, g.Duplicates, g.Strange)
		}
	}
	return nil
}
