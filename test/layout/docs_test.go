package layout_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/test/layout"
)

func TestEverySettingIsInTheDocumentation(t *testing.T) {
	t.Parallel()
	root := workspace(t)
	var sources []string
	eachFile(t, root, ".go", func(path, text string) {
		if !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(path, "test/") {
			sources = append(sources, text)
		}
	})
	document, err := os.ReadFile(filepath.Join(root, "docs/configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range layout.UndocumentedSettings(sources, string(document)) {
		t.Errorf("docs/configuration.md does not name %s", name)
	}
}

func TestLinksOfTheDocumentationLeadSomewhere(t *testing.T) {
	t.Parallel()
	root := workspace(t)
	n := 0
	eachFile(t, root, ".md", func(path, text string) {
		n++
		exists := func(target string) bool {
			_, err := os.Stat(filepath.Join(root, filepath.Dir(path), target))
			return err == nil
		}
		for _, target := range layout.BrokenLinks(text, exists) {
			t.Errorf("%s links to %s, which does not exist", path, target)
		}
	})
	if n < 8 {
		t.Errorf("%d documents, want at least 8", n)
	}
}

func TestUndocumentedSettingsAreFound(t *testing.T) {
	t.Parallel()
	source := "type s struct {\n\tA int `envconfig:\"QUEEN_A\" floor:\"1\"`\n\tB string `ignored:\"true\" chain:\"QUEEN_B,OLD_B\"`\n" +
		"\tC int `envconfig:\"QUEEN_C\"`\n}\n//\t`envconfig:\"COMMENT\"`"
	got := layout.UndocumentedSettings([]string{source, source}, "| `QUEEN_A`, OLD_B | `QUEEN_C_MORE=1` |")
	if diff := cmp.Diff([]string{"OLD_B", "QUEEN_B", "QUEEN_C"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	t.Parallel()
	text := "[a](here.md) [b](gone.md#part) [c](https://example.org/x) [d](#below) [e](also/gone)"
	got := layout.BrokenLinks(text, func(target string) bool { return target == "here.md" })
	if diff := cmp.Diff([]string{"gone.md", "also/gone"}, got); diff != "" {
		t.Error(diff)
	}
}

// eachFile reads the files of the repository with that ending; paths are relative with slashes.
func eachFile(t *testing.T, root, ending string, visit func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ending) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		visit(filepath.ToSlash(relative), string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEveryLibraryIsExplained(t *testing.T) {
	t.Parallel()
	root := workspace(t)
	tree, err := layout.Load(root, "linux")
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile(filepath.Join(root, "docs/dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range layout.UnexplainedLibraries(tree, string(document)) {
		t.Errorf("docs/dependencies.md does not say why %s", path)
	}
}

func TestUnexplainedLibrariesAreFound(t *testing.T) {
	t.Parallel()
	got := layout.UnexplainedLibraries(sound(), "`gin-gonic/gin` and `jackc/pgx/v5`, but jwt and `kelseyhightower`.")
	if len(got) != 0 {
		t.Errorf("%v, want none: all are named", got)
	}
	got = layout.UnexplainedLibraries(sound(), "`gin-gonic/gin/binding`, `jackc/pg`, kelseyhightower/envconfig")
	want := []string{
		"github.com/kelseyhightower/envconfig", "github.com/jackc/pgx/v5", "github.com/gin-gonic/gin", "github.com/jackc/pgx/v5/pgxpool",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
