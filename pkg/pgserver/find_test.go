package pgserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeInstall makes a folder that looks like an installed PostgreSQL.
func fakeInstall(t *testing.T, folder, version string) string {
	t.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\necho 'postgres (PostgreSQL) %s'\n", version)
	for _, name := range []string{"postgres", "initdb"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestSearch(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	old := fakeInstall(t, filepath.Join(base, "lib", "14", "bin"), "14.9")
	fifteen := fakeInstall(t, filepath.Join(base, "lib", "15", "bin"), "15.2 (Debian 15.2-1)")
	nine := fakeInstall(t, filepath.Join(base, "lib", "9", "bin"), "9.6.24")
	hundred := fakeInstall(t, filepath.Join(base, "lib", "100", "bin"), "100beta1")
	alone := filepath.Join(base, "alone")
	if err := os.Mkdir(alone, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(fifteen, "postgres"), filepath.Join(alone, "postgres")); err != nil {
		t.Fatal(err)
	}
	patterns := []string{filepath.Join(base, "lib", "*", "bin")}
	newestFirst := []Binaries{{Folder: hundred, Major: 100}, {Folder: fifteen, Major: 15}}
	list := func(folders ...string) string { return strings.Join(folders, string(os.PathListSeparator)) }

	cases := map[string]struct {
		path string
		want []Binaries
	}{
		"NewestInstalledFirstWithoutAPath": {path: "", want: newestFirst},
		"PathComesFirst":                   {path: fifteen, want: []Binaries{newestFirst[1], newestFirst[0]}},
		"ALinkLeadsToTheRealFolder":        {path: alone, want: []Binaries{newestFirst[1], newestFirst[0]}},
		"TooOldOnThePathIsPassedOver":      {path: list(old, nine, filepath.Join(base, "missing")), want: newestFirst},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, search(c.path, patterns)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseMajor(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n": 15,
		"postgres (PostgreSQL) 18beta1":                          18,
		"postgres (PostgreSQL) 16devel":                          16,
		"postgres (EnterpriseDB) 15":                             0,
		"":                                                       0,
	} {
		if got, ok := parseMajor(text); got != want || ok != (want != 0) {
			t.Errorf("parseMajor(%q) = %d, %v", text, got, ok)
		}
	}
}

func TestInstallKeepsThePackageFromCreatingACluster(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	if err := refuseDefaultCluster(base); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(base, "createcluster.d", "queen.conf"))
	if err != nil || string(got) != "create_main_cluster = false\n" {
		t.Errorf("queen.conf holds %q, %v", got, err)
	}
}
