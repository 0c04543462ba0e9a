package layout

import (
	"fmt"
	"path"
	"strings"
)

// limit is how many lines the files that match may have.
type limit struct {
	what    string
	lines   int
	matches func(File) bool
}

// limits are tried in order; the first that matches counts.
var limits = []limit{
	{"a test file", 700, func(f File) bool { return strings.HasSuffix(f.Path, "_test.go") }},
	{"a main.go", 25, func(f File) bool { return f.Main && path.Base(f.Path) == "main.go" }},
	{"a service's run.go or config.go", 200, func(f File) bool {
		return matchAny([]string{"services/*/run.go", "services/*/config.go"}, f.Path)
	}},
	{"a file of handlers", 250, func(f File) bool { return matchAny([]string{"services/*/internal/httpapi/..."}, f.Path) }},
	{"a procedure", 150, func(f File) bool { return matchAny([]string{"sql/*/procedures/*"}, f.Path) }},
	{"a Go file", 600, func(f File) bool { return strings.HasSuffix(f.Path, ".go") }},
}

// CheckSizes holds files to what a reader keeps in mind, and functions above 80 lines to a comment that says why.
func CheckSizes(t Tree) []string {
	var out []string
	for _, f := range t.Files {
		for _, l := range limits {
			if !l.matches(f) {
				continue
			}
			if f.Lines > l.lines {
				out = append(out, fmt.Sprintf("%s has %d lines, %s has at most %d", f.Path, f.Lines, l.what, l.lines))
			}
			break
		}
		for _, name := range f.Long {
			out = append(out, fmt.Sprintf("%s: %s is longer than 80 lines and no comment says why", f.Path, name))
		}
	}
	return out
}
