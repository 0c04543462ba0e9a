package files

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReplace(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "kept.json")
	for _, want := range []string{"old and long", "new"} {
		if err := Replace(path, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%q, %v", got, err)
		}
	}
	if err := Replace(filepath.Join(folder, "missing", "kept.json"), nil); err == nil {
		t.Error("a file was written in a folder that is not there")
	}
	if err := os.Mkdir(filepath.Join(folder, "taken"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Replace(filepath.Join(folder, "taken"), []byte("x")); err == nil {
		t.Error("a folder was replaced")
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 2 { // the file and the folder: nothing partial stays
		t.Errorf("%v, %v", left, err)
	}
}
