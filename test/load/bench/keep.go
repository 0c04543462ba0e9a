package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Record is docs/benchmarks.json: of each row what was found last, with what and where.
type Record struct {
	Rows map[string]Measured `json:"rows"`
}

// Measured is one row as it was found.
type Measured struct {
	Date     string   `json:"date"`
	Commit   string   `json:"commit"`
	Machine  string   `json:"machine"`
	Settings string   `json:"settings"`
	Results  []Result `json:"results"`
}

// keeper writes what is found.
type keeper struct {
	record, document string // paths; document - for nowhere
	about            Measured
}

func openKeeper(ctx context.Context, o options, root string) (*keeper, error) {
	k := &keeper{record: docs(root, o.record, "benchmarks.json"), document: docs(root, o.document, "benchmarks.md")}
	k.about = Measured{
		Date: time.Now().UTC().Format(time.DateOnly), Commit: version(ctx, root), Machine: machineClass(),
		Settings: fmt.Sprintf("%d pairs of %v after %v, payload %d bytes, random share %g", o.pairs, o.duration, o.warmup, o.payload, o.random),
	}
	_, err := k.read()
	return k, err
}

func (k *keeper) read() (Record, error) {
	record := Record{Rows: map[string]Measured{}}
	raw, err := os.ReadFile(k.record)
	if errors.Is(err, fs.ErrNotExist) {
		return record, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &record)
	}
	if err != nil {
		return record, fmt.Errorf("read %s: %w", k.record, err)
	}
	return record, nil
}

// keep replaces one row and writes the table anew.
func (k *keeper) keep(r row, results []Result) error {
	record, err := k.read()
	if err != nil {
		return err
	}
	measured := k.about
	measured.Results = results
	record.Rows[r.name] = measured
	raw, err := record.marshal()
	if err == nil {
		err = os.WriteFile(k.record, raw, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", k.record, err)
	}
	if k.document == "-" {
		return nil
	}
	return writeDocument(k.document, record)
}

// marshal gives each row one line, so that a comparison of two records names the rows that were measured anew.
func (r Record) marshal() ([]byte, error) {
	raw := []byte(`{"rows": {`)
	for i, name := range slices.Sorted(maps.Keys(r.Rows)) {
		row, err := json.Marshal(r.Rows[name])
		if err != nil {
			return nil, err
		}
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(fmt.Appendf(raw, "\n%q: ", name), row...)
	}
	return append(raw, "\n}}\n"...), nil
}

// version names what is measured.
func version(ctx context.Context, root string) string {
	cmd := exec.CommandContext(ctx, "git", "describe", "--tags", "--always", "--dirty")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// machineClass is the kind of machine, not which one it is.
func machineClass() string {
	model := runtime.GOARCH
	if raw, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(raw)) {
			if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	memory := ""
	if raw, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kilobytes int64
		if _, err := fmt.Fscanf(bytes.NewReader(raw), "MemTotal: %d kB", &kilobytes); err == nil {
			memory = fmt.Sprintf(", %d GB", (kilobytes+1<<19)>>20)
		}
	}
	return fmt.Sprintf("%d cores, %s%s, %s", runtime.NumCPU(), model, memory, runtime.GOOS)
}

// printResults is the table of one row for whoever looks on.
func printResults(out io.Writer, results []Result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, r := range results {
		fmt.Fprintln(w, strings.Join(r.cells(), "\t"))
	}
	return w.Flush()
}
