package layout

import (
	"fmt"
	"maps"
	"slices"
)

// placeholder is the version at which modules of the project require each other; the replace line gives the content.
const placeholder = "v0.0.0"

// outside are the modules that are not part of the workspace: the linters' dependencies must not move ours.
var outside = []string{"lint"}

// CheckModules wants each module named after its folder, with the workspace's go line, requiring the modules of the project
// that it imports, and replacing those that it requires, also through others: neither tidy nor an image build reads go.work.
// What it requires without importing is tidy's business.
func CheckModules(t Tree) []string {
	var out []string
	complain := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	byPath := map[string]Module{}
	for _, m := range t.Modules {
		byPath[m.Path] = m
	}
	for _, m := range t.Modules {
		if want := Root + "/" + m.Dir; m.Path != want {
			complain("%s/go.mod: the module is called %s, not %s", m.Dir, m.Path, want)
		}
		if m.Go != t.Work.Go {
			complain("%s/go.mod: go %s, the workspace has go %s", m.Dir, m.Go, t.Work.Go)
		}
		if m.Toolchain != "" {
			complain("%s/go.mod: has a toolchain line", m.Dir)
		}
		if used, wanted := slices.Contains(t.Work.Use, m.Dir), !slices.Contains(outside, m.Dir); used != wanted {
			complain("%s: in go.work %v, want %v", m.Dir, used, wanted)
		}
		for _, path := range slices.Sorted(maps.Keys(m.Requires)) {
			out = append(out, checkRequire(m, path, byPath)...)
		}
		needed := closure(m, byPath)
		for _, path := range needed {
			if other, ok := byPath[path]; ok && m.Replaces[path] != other.Dir {
				complain("%s/go.mod: replaces %s by %q, want %q", m.Dir, path, m.Replaces[path], other.Dir)
			}
		}
		for _, path := range slices.Sorted(maps.Keys(m.Replaces)) {
			if !slices.Contains(needed, path) {
				complain("%s/go.mod: replaces %s, which nothing here requires", m.Dir, path)
			}
		}
	}
	for _, name := range t.Work.Others {
		complain("go.work: has a %s line; it holds use lines and the go version only", name)
	}
	return append(out, checkRequiredByImport(t, byPath)...)
}

func checkRequire(m Module, path string, byPath map[string]Module) []string {
	var out []string
	if version := m.Requires[path]; version != placeholder {
		out = append(out, fmt.Sprintf("%s/go.mod: requires %s at %s, want %s", m.Dir, path, version, placeholder))
	}
	other, ok := byPath[path]
	if !ok {
		return append(out, fmt.Sprintf("%s/go.mod: requires %s, which does not exist", m.Dir, path))
	}
	if !mayUse(m.Dir, other.Dir) {
		out = append(out, fmt.Sprintf("%s/go.mod: requires %s: %s may not use %s", m.Dir, path, m.Dir, other.Dir))
	}
	return out
}

// closure is every module that m requires, itself or through others, sorted.
func closure(m Module, byPath map[string]Module) []string {
	var out []string
	open := slices.Collect(maps.Keys(m.Requires))
	for len(open) > 0 {
		path := open[len(open)-1]
		open = open[:len(open)-1]
		if !slices.Contains(out, path) {
			out = append(out, path)
			open = slices.AppendSeq(open, maps.Keys(byPath[path].Requires))
		}
	}
	slices.Sort(out)
	return out
}

// checkRequiredByImport finds what the workspace hides: an import of a module that the importer's go.mod does not name.
func checkRequiredByImport(t Tree, byPath map[string]Module) []string {
	return eachImport(t, true, func(from Package, to string) string {
		if !within(to, Root) {
			return ""
		}
		m, used := byPath[Root+"/"+home(local(from.Path))], Root+"/"+home(local(to))
		if _, ok := m.Requires[used]; ok || used == m.Path {
			return ""
		}
		return fmt.Sprintf("%s/go.mod: does not require %s", m.Dir, used)
	})
}
