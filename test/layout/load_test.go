package layout_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"queen.internal/test/layout"
)

func TestLoadReadsAWorkspace(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	long := "func long() {\n" + strings.Repeat("\t_ = 1\n", 79) + "}\n"
	write(t, root, map[string]string{
		"go.work":         "go 1.26.0\n\nuse (\n\t./sql\n\t./pkg\n)\n\nreplace example.com/x => ./x\n",
		"sql/go.mod":      "module queen.internal/sql\n\ngo 1.26.0\n",
		"sql/a.go":        "package sql\n",
		"sql/cmd/main.go": "// Command cmd is empty.\npackage main\n\nfunc main() {}\n",
		"pkg/go.mod":      "module queen.internal/pkg\n\ngo 1.26.0\n\nrequire queen.internal/sql v0.0.0\n\nreplace queen.internal/sql => ../sql\n",
		"lint/go.mod":     "module queen.internal/lint\n\ngo 1.26.0\n\ntoolchain go1.26.1\n",

		"pkg/queue/doc.go":            "// Package queue says so.\npackage queue\n\n" + long + "\n// Why: a table.\n" + strings.Replace(long, "long", "told", 1),
		"pkg/queue/here_linux.go":     "package queue\n\nimport _ \"queen.internal/sql\"\n",
		"pkg/queue/queue_test.go":     "package queue\n\nimport _ \"os\"\n",
		"pkg/queue/outside_test.go":   "package queue_test\n\nimport _ \"errors\"\n",
		"pkg/queue/testdata/x/x.go":   "package x\n",
		"pkg/onlytests/only_test.go":  "// Package onlytests has none but tests.\npackage onlytests\n",
		"pkg/queue/schema/one.sql":    "SELECT 1;\nSELECT 2;\n",
		".queen/bin/generated/gen.go": "package gen\n",
	})
	for goos, imports := range map[string][]string{"linux": {"queen.internal/sql"}, "darwin": nil} {
		tree, err := layout.Load(root, goos)
		if err != nil {
			t.Fatal(err)
		}
		files := []string{"doc.go"}
		if goos == "linux" {
			files = append(files, "here_linux.go")
		}
		ours := []layout.Package{
			{Path: "queen.internal/pkg/onlytests", Name: "onlytests", Documented: true},
			{
				Path: "queen.internal/pkg/queue", Name: "queue", Imports: imports, TestImports: []string{"os", "errors"},
				GoFiles: files, Documented: true,
			},
			{Path: "queen.internal/sql/cmd", Name: "main", GoFiles: []string{"main.go"}, Documented: true},
			{Path: "queen.internal/sql", Name: "sql", GoFiles: []string{"a.go"}},
		}
		want := layout.Tree{
			Packages: ours,
			Modules: []layout.Module{
				{Path: "queen.internal/lint", Dir: "lint", Go: "1.26.0", Toolchain: "go1.26.1"},
				{
					Path: "queen.internal/pkg", Dir: "pkg", Go: "1.26.0",
					Requires: map[string]string{"queen.internal/sql": "v0.0.0"}, Replaces: map[string]string{"queen.internal/sql": "sql"},
				},
				{Path: "queen.internal/sql", Dir: "sql", Go: "1.26.0"},
			},
			Work: layout.Work{Go: "1.26.0", Use: []string{"sql", "pkg"}, Others: []string{"replace"}},
			Files: []layout.File{
				{Path: "pkg/onlytests/only_test.go", Lines: 2},
				{Path: "pkg/queue/doc.go", Lines: 167, Long: []string{"long"}},
				{Path: "pkg/queue/here_linux.go", Lines: 3},
				{Path: "pkg/queue/outside_test.go", Lines: 3},
				{Path: "pkg/queue/queue_test.go", Lines: 3},
				{Path: "pkg/queue/schema/one.sql", Lines: 2},
				{Path: "sql/a.go", Lines: 1},
				{Path: "sql/cmd/main.go", Lines: 4, Main: true},
			},
		}
		tree.Packages = slices.DeleteFunc(tree.Packages, func(p layout.Package) bool { return !p.Ours() })
		byPath := cmpopts.SortSlices(func(a, b layout.Package) bool { return a.Path < b.Path })
		if diff := cmp.Diff(want, tree, cmpopts.EquateEmpty(), byPath); diff != "" {
			t.Errorf("%s:\n%s", goos, diff)
		}
	}
}

func TestLoadTellsWhatGoSaid(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, map[string]string{"go.work": "go 1.26.0\n\nuse ./absent\n"})
	if _, err := layout.Load(root, "linux"); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("error %v, want one that names the absent module", err)
	}
}

func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
