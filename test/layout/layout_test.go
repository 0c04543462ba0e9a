package layout_test

import (
	"os"
	"path/filepath"
	"testing"

	"queen.internal/test/layout"
)

// checks are the rules by name.
var checks = map[string]func(layout.Tree) []string{
	"ModuleArrows":    layout.CheckModuleArrows,
	"SQLIsData":       layout.CheckSQLIsData,
	"Layers":          layout.CheckLayers,
	"Doors":           layout.CheckDoors,
	"TestingStaysOut": layout.CheckTestingStaysOut,
	"PackageComments": layout.CheckPackageComments,
	"Names":           layout.CheckNames,
	"ServiceFolders":  layout.CheckServiceFolders,
	"Sizes":           layout.CheckSizes,
	"Modules":         layout.CheckModules,
}

func TestTreeKeepsTheRules(t *testing.T) {
	t.Parallel()
	root := workspace(t)
	for _, goos := range []string{"linux", "darwin"} {
		t.Run(goos, func(t *testing.T) {
			t.Parallel()
			tree, err := layout.Load(root, goos)
			if err != nil {
				t.Fatal(err)
			}
			if len(tree.Packages) < 100 || len(tree.Modules) < 9 || len(tree.Files) < 50 {
				t.Fatalf("read %d packages, %d modules, %d files: that is not the whole tree",
					len(tree.Packages), len(tree.Modules), len(tree.Files))
			}
			for name, check := range checks {
				for _, complaint := range check(tree) {
					t.Errorf("%s: %s", name, complaint)
				}
			}
		})
	}
}

// workspace is the folder of the go.work file above this package.
func workspace(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.work above this package")
		}
		dir = parent
	}
}
