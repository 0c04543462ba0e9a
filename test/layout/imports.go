package layout

import (
	"fmt"
	"slices"
	"strings"
)

// layers of pkg, lowest first. A package imports packages of lower layers only; the names are the first path element
// below pkg, so a family such as store counts as one.
var layers = [][]string{
	{"queue", "wire", "route", "segment", "seal"},
	{"config", "logging", "metrics", "backoff", "health", "files"},
	{"pg", "pgserver", "schema", "mesh", "auth", "httpd", "client"},
	{"store"},
	{"appendlog", "modes"},
	{"daemon"},
}

// besides are the arrows allowed within one layer.
var besides = []string{"wire queue", "segment queue", "route queue", "schema pg", "httpd auth"}

// support is what exists for tests alone. It may use all of pkg.
var support = []string{"pgtest", "meshtest", "testkit"}

// door is an outside library and the only packages that may import it. "*" stands for one path element, a trailing "/..."
// for everything below as well.
type door struct {
	library string
	users   []string
	tests   bool // holds for test files as well
}

var doors = []door{
	{"github.com/gin-gonic/gin", []string{"pkg/httpd", "services/*/internal/httpapi/..."}, true},
	// Any test may look into the database behind what it tests.
	{"github.com/jackc", []string{
		"pkg/pg", "pkg/pgserver/...", "pkg/schema", "pkg/store/...", "pkg/pgtest", "services/gateway/internal/control/...", "test/...",
	}, false},
	{"github.com/nats-io", []string{"pkg/mesh", "pkg/meshtest"}, true},
	{"github.com/golang-jwt", []string{"pkg/auth", "services/gateway/internal/access/..."}, true},
	{"github.com/hashicorp/go-retryablehttp", []string{"pkg/client", "pkg/auth", "services/gateway/internal/forward/..."}, true},
	{"github.com/kelseyhightower/envconfig", []string{"pkg/config"}, true},
}

// CheckModuleArrows lets a service use pkg and sql but no other service, pkg use sql, sql nothing, compose use pkg and
// sql, and test use all three: it runs services and does not import them. Test files obey as well.
func CheckModuleArrows(t Tree) []string {
	return eachImport(t, true, func(from Package, to string) string {
		if !within(to, Root) || mayUse(home(local(from.Path)), home(local(to))) {
			return ""
		}
		return fmt.Sprintf("%s imports %s: %s may not use %s", local(from.Path), local(to), home(local(from.Path)), home(local(to)))
	})
}

func mayUse(module, other string) bool {
	if module == other {
		return true
	}
	switch {
	case module == "sql":
		return false
	case module == "pkg":
		return other == "sql"
	case module == "test":
		return other == "pkg" || other == "sql" || other == "compose"
	default: // compose and the services
		return other == "pkg" || other == "sql"
	}
}

// CheckSQLIsData keeps the sql module to embedding files and hashing them; it opens, dials and runs nothing.
func CheckSQLIsData(t Tree) []string {
	allowed := []string{"embed", "io/fs", "crypto/sha256", "encoding/hex", "fmt", "path", "slices", "sort", "strings", "strconv"}
	return eachImport(t, false, func(from Package, to string) string {
		if home(local(from.Path)) != "sql" || within(to, Root) || slices.Contains(allowed, to) {
			return ""
		}
		return fmt.Sprintf("%s imports %s: the sql module only embeds files", local(from.Path), to)
	})
}

// CheckLayers lets imports inside pkg point downwards only.
func CheckLayers(t Tree) []string {
	out := eachImport(t, false, func(from Package, to string) string {
		f, g := family(from.Path), family(to)
		if f == "" || g == "" || f == g || slices.Contains(support, f) || slices.Contains(besides, f+" "+g) {
			return ""
		}
		if slices.Contains(support, g) {
			return fmt.Sprintf("%s imports %s, which is for tests only", local(from.Path), local(to))
		}
		if a, b := layer(f), layer(g); a >= 0 && b >= 0 && a <= b {
			return fmt.Sprintf("%s imports %s: imports inside pkg point downwards", local(from.Path), local(to))
		}
		return ""
	})
	for _, p := range t.Packages {
		if f := family(p.Path); f != "" && layer(f) < 0 && !slices.Contains(support, f) {
			out = append(out, local(p.Path)+" has no layer: give it one in test/layout/imports.go")
		}
	}
	return out
}

// CheckDoors lets an outside library enter by its door only.
func CheckDoors(t Tree) []string {
	var out []string
	for _, d := range doors {
		out = append(out, eachImport(t, d.tests, func(from Package, to string) string {
			if !within(to, d.library) || matchAny(d.users, local(from.Path)) {
				return ""
			}
			return fmt.Sprintf("%s imports %s, whose doors are %s", local(from.Path), to, strings.Join(d.users, ", "))
		})...)
	}
	return out
}

// family is the first path element below pkg, empty for packages elsewhere.
func family(path string) string {
	rest, ok := strings.CutPrefix(path, Root+"/pkg/")
	if !ok {
		return ""
	}
	first, _, _ := strings.Cut(rest, "/")
	return first
}

func layer(family string) int {
	return slices.IndexFunc(layers, func(names []string) bool { return slices.Contains(names, family) })
}

// eachImport calls rule for every import of a package of the project and collects what it has to say.
func eachImport(t Tree, tests bool, rule func(from Package, to string) string) []string {
	var out []string
	for _, p := range t.Packages {
		if !p.Ours() {
			continue
		}
		imports := p.Imports
		if tests {
			imports = slices.Concat(imports, p.TestImports)
		}
		for _, to := range imports {
			if complaint := rule(p, to); complaint != "" && !slices.Contains(out, complaint) {
				out = append(out, complaint)
			}
		}
	}
	return out
}

func matchAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		base, below := strings.CutSuffix(pattern, "/...")
		want, got := strings.Split(base, "/"), strings.Split(path, "/")
		if len(got) < len(want) || (len(got) > len(want) && !below) {
			return false
		}
		for i, element := range want {
			if element != "*" && element != got[i] {
				return false
			}
		}
		return true
	})
}
