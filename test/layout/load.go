package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Load reads the workspace at root as the go command sees it for the given operating system.
func Load(root, goos string) (Tree, error) {
	g := goCommand{root, goos}
	var tree Tree
	var err error
	if tree.Work, err = g.work(); err != nil {
		return Tree{}, err
	}
	if tree.Packages, err = g.packages(); err != nil {
		return Tree{}, err
	}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			name := entry.Name()
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case entry.Name() == "go.mod":
			module, err := g.module(filepath.Dir(relative))
			tree.Modules = append(tree.Modules, module)
			return err
		case strings.HasSuffix(path, ".go"), strings.HasSuffix(path, ".sql"):
			file, err := readFile(path)
			file.Path = filepath.ToSlash(relative)
			tree.Files = append(tree.Files, file)
			return err
		}
		return nil
	})
	return tree, err
}

// goCommand runs go at the root of the workspace, whatever the caller's environment says of workspaces.
type goCommand struct{ root, goos string }

func (g goCommand) run(args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = g.root
	cmd.Env = append(os.Environ(), "GOWORK="+filepath.Join(g.root, "go.work"), "GOOS="+g.goos, "CGO_ENABLED=0")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return out, err
}

func (g goCommand) packages() ([]Package, error) {
	out, err := g.run("list", "-deps",
		"-json=ImportPath,Name,Dir,Imports,TestImports,XTestImports,GoFiles,TestGoFiles,XTestGoFiles", "work")
	if err != nil {
		return nil, err
	}
	var packages []Package
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var listed struct {
			ImportPath, Name, Dir                                                  string
			Imports, TestImports, XTestImports, GoFiles, TestGoFiles, XTestGoFiles []string
		}
		if err := decoder.Decode(&listed); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("read go list: %w", err)
		}
		p := Package{Path: listed.ImportPath, Name: listed.Name, Imports: listed.Imports}
		if p.Ours() {
			p.TestImports = slices.Concat(listed.TestImports, listed.XTestImports)
			p.GoFiles = listed.GoFiles
			documents := p.GoFiles
			if len(documents) == 0 { // a package of tests only
				documents = slices.Concat(listed.TestGoFiles, listed.XTestGoFiles)
			}
			if p.Documented, err = documented(listed.Dir, documents); err != nil {
				return nil, err
			}
		}
		packages = append(packages, p)
	}
}

func documented(dir string, files []string) (bool, error) {
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return false, err
		}
		if file.Doc.Text() != "" {
			return true, nil
		}
	}
	return false, nil
}

func (g goCommand) module(dir string) (Module, error) {
	var file struct {
		Module        struct{ Path string }
		Go, Toolchain string
		Require       []struct{ Path, Version string }
		Replace       []struct{ Old, New struct{ Path string } }
	}
	out, err := g.run("mod", "edit", "-json", filepath.Join(dir, "go.mod"))
	if err != nil {
		return Module{}, err
	}
	if err := json.Unmarshal(out, &file); err != nil {
		return Module{}, fmt.Errorf("read %s/go.mod: %w", dir, err)
	}
	m := Module{
		Path: file.Module.Path, Dir: filepath.ToSlash(dir), Go: file.Go, Toolchain: file.Toolchain,
		Requires: map[string]string{}, Replaces: map[string]string{},
	}
	for _, r := range file.Require {
		if within(r.Path, Root) {
			m.Requires[r.Path] = r.Version
		}
	}
	for _, r := range file.Replace {
		if within(r.Old.Path, Root) {
			m.Replaces[r.Old.Path] = filepath.ToSlash(filepath.Join(dir, r.New.Path))
		}
	}
	return m, nil
}

func (g goCommand) work() (Work, error) {
	out, err := g.run("work", "edit", "-json")
	if err != nil {
		return Work{}, err
	}
	var file struct {
		Go  string
		Use []struct{ DiskPath string }
	}
	var all map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(out, &file), json.Unmarshal(out, &all)); err != nil {
		return Work{}, fmt.Errorf("read go.work: %w", err)
	}
	w := Work{Go: file.Go}
	for _, use := range file.Use {
		w.Use = append(w.Use, filepath.ToSlash(filepath.Clean(use.DiskPath)))
	}
	for name, value := range all {
		if name != "Go" && name != "Use" && string(value) != "null" {
			w.Others = append(w.Others, strings.ToLower(name))
		}
	}
	slices.Sort(w.Others)
	return w, nil
}

// longFunction is the length above which a function needs a comment that says why.
const longFunction = 80

func readFile(path string) (File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return File{}, err
	}
	file := File{Lines: bytes.Count(text, []byte("\n"))}
	if !strings.HasSuffix(path, ".go") {
		return file, nil
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return File{}, err
	}
	file.Main = parsed.Name.Name == "main"
	if strings.HasSuffix(path, "_test.go") {
		return file, nil
	}
	for _, declaration := range parsed.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Doc != nil {
			continue
		}
		if set.Position(function.End()).Line-set.Position(function.Pos()).Line+1 > longFunction {
			file.Long = append(file.Long, function.Name.Name)
		}
	}
	return file, nil
}
