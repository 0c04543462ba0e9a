// Package layout is the architecture as a test: which module and which package may import which, who may use an outside
// library, that nothing made for tests reaches a binary, how long files may get, and how the modules of the workspace
// refer to each other. The rules are functions over a Tree and know nothing of where it came from; Load reads the real
// one with the go command. What the folders are called beyond these rules is nobody's business here.
//
// go caches the result although it depends on files outside this module: run it with -count=1, as make does.
package layout

import "strings"

// Root is the path that every module path of the project begins with.
const Root = "queen.internal"

// Tree is what the rules look at.
type Tree struct {
	Packages []Package // of the project and, with Name and Imports only, of everything they reach
	Modules  []Module
	Work     Work
	Files    []File
}

// Package is one Go package.
type Package struct {
	Path        string
	Name        string
	Imports     []string
	TestImports []string
	GoFiles     []string // base names, without tests
	Documented  bool     // has a package comment
}

// Ours reports whether the package belongs to the project.
func (p Package) Ours() bool { return within(p.Path, Root) }

// Module is one go.mod.
type Module struct {
	Path      string
	Dir       string // relative to the root of the repository, slashes
	Go        string
	Toolchain string
	Requires  map[string]string // of modules of the project: version
	Replaces  map[string]string // of modules of the project: directory relative to the root of the repository
}

// Work is the go.work file.
type Work struct {
	Go     string
	Use    []string // directories relative to the root of the repository
	Others []string // names of other directives that it has
}

// File is one source file, Go or SQL, by its path relative to the root of the repository.
type File struct {
	Path  string
	Lines int
	Main  bool     // Go, of package main
	Long  []string // functions above 80 lines that have no comment of their own; not of tests, whose tables are long
}

// within reports whether path is prefix or lies below it.
func within(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// local is path without the project's prefix: "queen.internal/pkg/store/log" is "pkg/store/log".
func local(path string) string { return strings.TrimPrefix(path, Root+"/") }

// home is the module a local path lies in, by its directory: "pkg", "services/ingest".
func home(path string) string {
	parts := strings.Split(path, "/")
	if parts[0] == "services" && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}
