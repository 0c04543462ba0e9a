package layout

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// vague are package names that say nothing of what the package gives.
var vague = []string{"util", "utils", "common", "helper", "helpers", "base", "core", "models", "types", "misc"}

// CheckTestingStaysOut lets no binary reach the testing packages, and only known test support import them outside of test
// files.
func CheckTestingStaysOut(t Tree) []string {
	graph := map[string]Package{}
	for _, p := range t.Packages {
		graph[p.Path] = p
	}
	var out []string
	for _, p := range t.Packages {
		if !p.Ours() {
			continue
		}
		if slices.ContainsFunc(p.Imports, isTesting) && !slices.Contains(support, family(p.Path)) && home(local(p.Path)) != "test" {
			out = append(out, local(p.Path)+" imports testing outside of its tests and is not test support")
		}
		if p.Name != "main" {
			continue
		}
		if way := wayTo(graph, p.Path, isTesting, map[string]bool{}); way != nil {
			out = append(out, "a binary reaches testing: "+strings.Join(way, " -> "))
		}
	}
	return out
}

func isTesting(path string) bool { return within(path, "testing") }

// wayTo is one chain of imports from path to a package that found accepts, nil when there is none.
func wayTo(graph map[string]Package, from string, found func(string) bool, seen map[string]bool) []string {
	if found(from) {
		return []string{from}
	}
	if seen[from] {
		return nil
	}
	seen[from] = true
	for _, to := range graph[from].Imports {
		if way := wayTo(graph, to, found, seen); way != nil {
			return append([]string{from}, way...)
		}
	}
	return nil
}

// CheckPackageComments wants every package to say what it is for.
func CheckPackageComments(t Tree) []string {
	var out []string
	for _, p := range t.Packages {
		if p.Ours() && !p.Documented {
			out = append(out, local(p.Path)+" has no package comment")
		}
	}
	return out
}

// CheckNames wants a package named after what it gives, and its folder named like the package.
func CheckNames(t Tree) []string {
	var out []string
	for _, p := range t.Packages {
		if !p.Ours() {
			continue
		}
		folder := path.Base(p.Path)
		if slices.Contains(vague, p.Name) || slices.Contains(vague, folder) {
			out = append(out, local(p.Path)+": the name says nothing of what the package gives")
		}
		if p.Name != "main" && p.Name != folder {
			out = append(out, fmt.Sprintf("%s is called package %s", local(p.Path), p.Name))
		}
	}
	return out
}

// CheckServiceFolders wants a service to be main.go, run.go and config.go with everything else internal. The console
// also has its front end and the command line client.
func CheckServiceFolders(t Tree) []string {
	var out []string
	for _, p := range t.Packages {
		module := home(local(p.Path))
		if !p.Ours() || !strings.HasPrefix(module, "services/") {
			continue
		}
		below := strings.TrimPrefix(strings.TrimPrefix(local(p.Path), module), "/")
		switch {
		case below == "":
			for _, file := range p.GoFiles {
				if !slices.Contains([]string{"main.go", "run.go", "config.go"}, file) {
					out = append(out, fmt.Sprintf("%s/%s: a service's own files are main.go, run.go and config.go", module, file))
				}
			}
		case within(below, "internal"):
		case module == "services/console" && (within(below, "web") || within(below, "cmd/queenctl")):
		default:
			out = append(out, local(p.Path)+" is not under internal")
		}
	}
	return out
}
