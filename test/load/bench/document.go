package main

import (
	"fmt"
	"math"
	"os"
	"strings"
)

// The table lies between these lines of the document; what is outside stays as it is.
const (
	tableBegin = "<!-- begin: make bench -->"
	tableEnd   = "<!-- end: make bench -->"
)

// writeDocument puts the table of all rows into the document.
func writeDocument(path string, record Record) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	text, err := insert(string(raw), tableOf(record))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return nil
}

func insert(text, table string) (string, error) {
	before, rest, found := strings.Cut(text, tableBegin)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !found || !ended {
		return "", fmt.Errorf("no lines %q and %q", tableBegin, tableEnd)
	}
	return before + tableBegin + "\n\n" + table + "\n" + tableEnd + after, nil
}

// tableOf renders all rows in the order of the program, and who measured them below.
func tableOf(record Record) string {
	var b strings.Builder
	b.WriteString("| What | Here | Yardstick | Figure | Bar | Met | Row |\n|---|---|---|---|---|---|---|\n")
	var about []string
	for _, r := range table() {
		measured, ok := record.Rows[r.name]
		if !ok {
			continue
		}
		for _, result := range measured.Results {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(result.cells(), " | "))
		}
		line := fmt.Sprintf("%s, commit %s, %s; %s", measured.Date, measured.Commit, measured.Machine, measured.Settings)
		if n := len(about); n > 0 && strings.HasPrefix(about[n-1], line+": ") {
			about[n-1] += ", " + r.name
		} else {
			about = append(about, line+": "+r.name)
		}
	}
	b.WriteString("\n")
	for _, line := range about {
		b.WriteString("- " + line + "\n")
	}
	return b.String()
}

// cells are a line of the table.
func (r Result) cells() []string {
	what := r.What
	if r.Note != "" {
		what += " (" + r.Note + ")"
	}
	yardstick := ""
	if r.Against != "" {
		yardstick = number(float64(r.Yardstick)) + " " + r.Unit + ", " + r.Against
	}
	met := ""
	if r.Met != nil {
		met = map[bool]string{true: "yes", false: "**no**"}[*r.Met]
	}
	return []string{what, number(float64(r.Subject)) + " " + r.Unit, yardstick, number(float64(r.Figure)), r.Bar, met, r.Row}
}

// number has three digits that count.
func number(f float64) string {
	switch {
	case math.IsNaN(f):
		return "-"
	case math.Abs(f) >= 10_000:
		return fmt.Sprintf("%.0f k", f/1000)
	case math.Abs(f) >= 100:
		return fmt.Sprintf("%.0f", f)
	case math.Abs(f) >= 10:
		return fmt.Sprintf("%.1f", f)
	default:
		return fmt.Sprintf("%.2f", f)
	}
}
