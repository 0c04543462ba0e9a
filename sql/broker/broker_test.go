package broker

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func read(t *testing.T, name string) string {
	t.Helper()
	body, err := fs.ReadFile(Files, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestNamesListsEveryFileTablesFirst(t *testing.T) {
	t.Parallel()
	var all []string
	err := fs.WalkDir(Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all = append(all, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	names := Names()
	if sorted := slices.Sorted(slices.Values(names)); !slices.Equal(sorted, slices.Sorted(slices.Values(all))) {
		t.Fatalf("names %q, files %q", sorted, all)
	}
	first := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, "procedures/") })
	if first < 1 || !slices.IsSorted(names[:first]) || !slices.IsSorted(names[first:]) || path.Dir(names[len(names)-1]) != "procedures" {
		t.Fatalf("order of installation %q", names)
	}
}

func TestHashIsAStableSHA256(t *testing.T) {
	t.Parallel()
	if h := Hash(); !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(h) || h != Hash() {
		t.Fatalf("hash %q, then %q", h, Hash())
	}
}

func TestSchemaFilesAreNumbered(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^schema/\d{3}_[a-z_]+\.sql$`)
	seen := map[string]string{}
	for _, name := range Names() {
		if path.Dir(name) != "schema" {
			continue
		}
		number := path.Base(name)[:3]
		if !form.MatchString(name) || seen[number] != "" {
			t.Errorf("%s: want schema/NNN_noun.sql with a number of its own (%s)", name, seen[number])
		}
		seen[number] = name
	}
}

var (
	creates   = regexp.MustCompile(`(?m)^CREATE (OR REPLACE )?FUNCTION queen\.([a-z_]+)`)
	parameter = regexp.MustCompile(`(?ms)^CREATE OR REPLACE FUNCTION queen\.[a-z_]+\((.*?)\)\s*\n?RETURNS`)
)

func TestAProcedureFileHoldsTheFunctionOfItsName(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		if path.Dir(name) != "procedures" {
			continue
		}
		body, function := read(t, name), strings.TrimSuffix(path.Base(name), ".sql")
		found := creates.FindAllStringSubmatch(body, -1)
		if len(found) != 1 || found[0][2] != function || found[0][1] == "" {
			t.Errorf("%s: creates %q, want one CREATE OR REPLACE FUNCTION queen.%s", name, found, function)
			continue
		}
		if !strings.HasPrefix(body, "-- "+function+" ") {
			t.Errorf("%s: the header does not begin with the function's name", name)
		}
		for _, part := range []string{"Callers:", "Locks:"} {
			if header, _, _ := strings.Cut(body, "CREATE "); !strings.Contains(header, part) {
				t.Errorf("%s: the header says nothing under %q", name, part)
			}
		}
		m := parameter.FindStringSubmatch(body)
		if m == nil {
			t.Errorf("%s: no parameter list before RETURNS", name)
			continue
		}
		for _, p := range strings.Split(m[1], ",") {
			if p = strings.TrimSpace(p); p != "" && !strings.HasPrefix(p, "p_") {
				t.Errorf("%s: parameter %q is not called p_…", name, p)
			}
		}
	}
}
