package layout_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/test/layout"
)

// sound is a small tree without any fault; each case spoils one thing of it.
func sound() layout.Tree {
	return layout.Tree{
		Packages: []layout.Package{
			pack("sql/broker", "embed", "io/fs", "crypto/sha256"),
			pack("pkg/queue", "errors"),
			pack("pkg/wire", "queen.internal/pkg/queue"),
			pack("pkg/config", "github.com/kelseyhightower/envconfig"),
			pack("pkg/pg", "queen.internal/pkg/config", "github.com/jackc/pgx/v5"),
			pack("pkg/schema", "queen.internal/pkg/pg", "queen.internal/sql/broker"),
			pack("pkg/httpd", "github.com/gin-gonic/gin"),
			pack("pkg/store/log", "queen.internal/pkg/pg", "github.com/jackc/pgx/v5/pgxpool"),
			pack("pkg/store/group", "queen.internal/pkg/pg"),
			pack("pkg/pgtest", "testing", "queen.internal/pkg/store/log", "queen.internal/pkg/schema"),
			command("services/ingest", "queen.internal/pkg/httpd", "queen.internal/services/ingest/internal/httpapi"),
			pack("services/ingest/internal/httpapi", "github.com/gin-gonic/gin", "queen.internal/pkg/wire"),
			command("services/console/cmd/queenctl"),
			pack("compose/local", "queen.internal/pkg/queue"),
			{Path: "queen.internal/pkg/appendlog", Name: "appendlog", TestImports: []string{"github.com/jackc/pgx/v5"}, Documented: true},
			pack("test/e2e", "testing", "queen.internal/compose/local", "github.com/jackc/pgx/v5"),
			{Path: "testing", Name: "testing"},
			{Path: "errors", Name: "errors"},
		},
		Modules: []layout.Module{
			module("sql"), module("pkg", "sql"), module("compose", "pkg", "sql"), module("services/ingest", "pkg", "sql"),
			replacing(module("services/console", "pkg"), "sql"), module("test", "pkg", "sql", "compose"), module("lint"),
		},
		Work: layout.Work{Go: "1.26.0", Use: []string{"sql", "pkg", "compose", "services/ingest", "services/console", "test"}},
		Files: []layout.File{
			{Path: "services/ingest/main.go", Lines: 25, Main: true},
			{Path: "pkg/pgtest/main.go", Lines: 26},
			{Path: "services/ingest/run.go", Lines: 200},
			{Path: "services/ingest/internal/httpapi/push.go", Lines: 250},
			{Path: "pkg/pg/config.go", Lines: 600},
			{Path: "pkg/pg/open_test.go", Lines: 700},
			{Path: "sql/broker/procedures/push.sql", Lines: 150},
			{Path: "sql/broker/schema/010_queues.sql", Lines: 9000},
		},
	}
}

func pack(path string, imports ...string) layout.Package {
	return layout.Package{Path: "queen.internal/" + path, Name: path[strings.LastIndex(path, "/")+1:], Imports: imports, Documented: true}
}

func command(path string, imports ...string) layout.Package {
	p := pack(path, imports...)
	p.Name, p.GoFiles = "main", []string{"config.go", "main.go", "run.go"}
	return p
}

func module(dir string, uses ...string) layout.Module {
	m := layout.Module{
		Path: "queen.internal/" + dir, Dir: dir, Go: "1.26.0", Requires: map[string]string{}, Replaces: map[string]string{},
	}
	for _, use := range uses {
		m.Requires["queen.internal/"+use], m.Replaces["queen.internal/"+use] = "v0.0.0", use
	}
	return m
}

// replacing adds a replace line to a module that requires the other one only through a third.
func replacing(m layout.Module, dir string) layout.Module {
	m.Replaces["queen.internal/"+dir] = dir
	return m
}

func TestSoundTreeHasNoComplaint(t *testing.T) {
	t.Parallel()
	for name, check := range checks {
		if got := check(sound()); len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// imports adds an import to a package of the tree, or the package with it.
func imports(from string, to ...string) func(*layout.Tree) {
	return func(t *layout.Tree) {
		i := slices.IndexFunc(t.Packages, func(p layout.Package) bool { return p.Path == "queen.internal/"+from })
		if i < 0 {
			t.Packages = append(t.Packages, pack(from, to...))
			return
		}
		t.Packages[i].Imports = append(t.Packages[i].Imports, to...)
	}
}

func testImports(from, to string) func(*layout.Tree) {
	return func(t *layout.Tree) {
		p := pack(from)
		p.TestImports = []string{to}
		t.Packages = append(t.Packages, p)
	}
}

func spoilModule(dir string, spoil func(*layout.Module)) func(*layout.Tree) {
	return func(t *layout.Tree) {
		i := slices.IndexFunc(t.Modules, func(m layout.Module) bool { return m.Dir == dir })
		spoil(&t.Modules[i])
	}
}

func file(path string, lines int, long ...string) func(*layout.Tree) {
	return func(t *layout.Tree) { t.Files = append(t.Files, layout.File{Path: path, Lines: lines, Long: long}) }
}

func TestEachRuleFindsItsFault(t *testing.T) {
	t.Parallel()
	const pgx, gin = "github.com/jackc/pgx/v5", "github.com/gin-gonic/gin"
	for name, test := range map[string]struct {
		check string
		spoil func(*layout.Tree)
		want  []string
	}{
		"ServiceUsesService": {
			"ModuleArrows", imports("services/console/cmd/queenctl", "queen.internal/services/ingest/internal/httpapi"),
			[]string{"services/console/cmd/queenctl imports services/ingest/internal/httpapi: services/console may not use services/ingest"},
		},
		"PkgUsesService": {
			"ModuleArrows", imports("pkg/queue", "queen.internal/services/ingest"),
			[]string{"pkg/queue imports services/ingest: pkg may not use services/ingest"},
		},
		"PkgTestsUseCompose": {
			"ModuleArrows", testImports("pkg/wire", "queen.internal/compose/local"),
			[]string{"pkg/wire imports compose/local: pkg may not use compose"},
		},
		"SQLUsesPkg": {
			"ModuleArrows", imports("sql/broker", "queen.internal/pkg/queue"),
			[]string{"sql/broker imports pkg/queue: sql may not use pkg"},
		},
		"TestUsesService": {
			"ModuleArrows", imports("test/e2e", "queen.internal/services/ingest"),
			[]string{"test/e2e imports services/ingest: test may not use services/ingest"},
		},
		"SQLOpensFiles": {"SQLIsData", imports("sql/broker", "os"), []string{"sql/broker imports os: the sql module only embeds files"}},
		"Upwards": {
			"Layers", imports("pkg/config", "queen.internal/pkg/pg"),
			[]string{"pkg/config imports pkg/pg: imports inside pkg point downwards"},
		},
		"Sideways": {
			"Layers", imports("pkg/pg", "queen.internal/pkg/httpd"),
			[]string{"pkg/pg imports pkg/httpd: imports inside pkg point downwards"},
		},
		"UsesTestSupport": {
			"Layers", imports("pkg/store/log", "queen.internal/pkg/pgtest"),
			[]string{"pkg/store/log imports pkg/pgtest, which is for tests only"},
		},
		"NoLayer": {"Layers", imports("pkg/novelty"), []string{"pkg/novelty has no layer: give it one in test/layout/imports.go"}},
		"GinInAPackage": {
			"Doors", imports("services/ingest/internal/batch", gin),
			[]string{"services/ingest/internal/batch imports " + gin + ", whose doors are pkg/httpd, services/*/internal/httpapi/..."},
		},
		"EnvconfigInATest": {
			"Doors", testImports("pkg/wire", "github.com/kelseyhightower/envconfig"),
			[]string{"pkg/wire imports github.com/kelseyhightower/envconfig, whose doors are pkg/config"},
		},
		"PgxInAPackage": {
			"Doors", imports("pkg/wire", pgx),
			[]string{"pkg/wire imports " + pgx + ", whose doors are pkg/pg, pkg/pgserver/..., pkg/schema, pkg/store/..., pkg/pgtest, " +
				"services/gateway/internal/control/..., test/..."},
		},
		"BinaryReachesTesting": {
			"TestingStaysOut", imports("services/ingest/internal/httpapi", "queen.internal/pkg/pgtest"),
			[]string{"a binary reaches testing: queen.internal/services/ingest -> queen.internal/services/ingest/internal/httpapi -> " +
				"queen.internal/pkg/pgtest -> testing"},
		},
		"HiddenTestSupport": {
			"TestingStaysOut", imports("pkg/queue", "testing/fstest"),
			[]string{"pkg/queue imports testing outside of its tests and is not test support"},
		},
		"NoComment": {
			"PackageComments", func(t *layout.Tree) { t.Packages[1].Documented = false }, []string{"pkg/queue has no package comment"},
		},
		"VagueName": {"Names", imports("pkg/util"), []string{"pkg/util: the name says nothing of what the package gives"}},
		"FolderAndPackageDiffer": {
			"Names", func(t *layout.Tree) { t.Packages[1].Name = "messages" }, []string{"pkg/queue is called package messages"},
		},
		"FourthFileOfAService": {
			"ServiceFolders", func(t *layout.Tree) { t.Packages[10].GoFiles = append(t.Packages[10].GoFiles, "extra.go") },
			[]string{"services/ingest/extra.go: a service's own files are main.go, run.go and config.go"},
		},
		"OpenPackageOfAService": {"ServiceFolders", imports("services/ingest/batch"), []string{"services/ingest/batch is not under internal"}},
		"LongMain":              {"Sizes", func(t *layout.Tree) { t.Files[0].Lines = 26 }, []string{"services/ingest/main.go has 26 lines, a main.go has at most 25"}},
		"LongRun": {
			"Sizes", file("services/gateway/run.go", 201),
			[]string{"services/gateway/run.go has 201 lines, a service's run.go or config.go has at most 200"},
		},
		"LongHandlers": {
			"Sizes", file("services/deliver/internal/httpapi/pop.go", 251),
			[]string{"services/deliver/internal/httpapi/pop.go has 251 lines, a file of handlers has at most 250"},
		},
		"LongFile":      {"Sizes", file("pkg/wire/scan.go", 601), []string{"pkg/wire/scan.go has 601 lines, a Go file has at most 600"}},
		"LongTest":      {"Sizes", file("pkg/wire/scan_test.go", 701), []string{"pkg/wire/scan_test.go has 701 lines, a test file has at most 700"}},
		"LongProcedure": {"Sizes", file("sql/broker/procedures/ack.sql", 151), []string{"sql/broker/procedures/ack.sql has 151 lines, a procedure has at most 150"}},
		"LongFunction":  {"Sizes", file("pkg/wire/scan.go", 100, "scan"), []string{"pkg/wire/scan.go: scan is longer than 80 lines and no comment says why"}},
		"ModuleName": {
			"Modules", spoilModule("lint", func(m *layout.Module) { m.Path = "queen.internal/tools" }),
			[]string{"lint/go.mod: the module is called queen.internal/tools, not queen.internal/lint"},
		},
		"GoLine": {
			"Modules", spoilModule("sql", func(m *layout.Module) { m.Go = "1.25.0" }), []string{"sql/go.mod: go 1.25.0, the workspace has go 1.26.0"},
		},
		"Toolchain": {
			"Modules", spoilModule("sql", func(m *layout.Module) { m.Toolchain = "go1.26.8" }), []string{"sql/go.mod: has a toolchain line"},
		},
		"RealVersion": {
			"Modules", spoilModule("compose", func(m *layout.Module) { m.Requires["queen.internal/pkg"] = "v0.1.0" }),
			[]string{"compose/go.mod: requires queen.internal/pkg at v0.1.0, want v0.0.0"},
		},
		"NoReplace": {
			"Modules", spoilModule("compose", func(m *layout.Module) { delete(m.Replaces, "queen.internal/sql") }),
			[]string{`compose/go.mod: replaces queen.internal/sql by "", want "sql"`},
		},
		"NoReplaceOfWhatPkgNeeds": {
			"Modules", spoilModule("services/console", func(m *layout.Module) { delete(m.Replaces, "queen.internal/sql") }),
			[]string{`services/console/go.mod: replaces queen.internal/sql by "", want "sql"`},
		},
		"ImportedNotRequired": {
			"Modules", func(t *layout.Tree) {
				t.Modules[1] = module("pkg")
			},
			[]string{"pkg/go.mod: does not require queen.internal/sql"},
		},
		"ReplacedNotRequired": {
			"Modules", spoilModule("sql", func(m *layout.Module) { m.Replaces["queen.internal/pkg"] = "pkg" }),
			[]string{"sql/go.mod: replaces queen.internal/pkg, which nothing here requires"},
		},
		"UnknownModule": {
			"Modules", spoilModule("sql", func(m *layout.Module) { m.Requires["queen.internal/gone"] = "v0.0.0" }),
			[]string{"sql/go.mod: requires queen.internal/gone, which does not exist"},
		},
		"ForbiddenRequire": {
			"Modules", spoilModule("services/ingest", func(m *layout.Module) {
				m.Requires["queen.internal/compose"], m.Replaces["queen.internal/compose"] = "v0.0.0", "compose"
			}),
			[]string{"services/ingest/go.mod: requires queen.internal/compose: services/ingest may not use compose"},
		},
		"LintInTheWorkspace": {
			"Modules", func(t *layout.Tree) { t.Work.Use = append(t.Work.Use, "lint") }, []string{"lint: in go.work true, want false"},
		},
		"ModuleOutsideTheWorkspace": {
			"Modules", func(t *layout.Tree) { t.Work.Use = t.Work.Use[1:] }, []string{"sql: in go.work false, want true"},
		},
		"WorkReplaces": {
			"Modules", func(t *layout.Tree) { t.Work.Others = []string{"replace"} },
			[]string{"go.work: has a replace line; it holds use lines and the go version only"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := sound()
			test.spoil(&tree)
			got := checks[test.check](tree)
			for _, want := range test.want {
				if !slices.Contains(got, want) {
					t.Errorf("no complaint %q in:\n%s", want, cmp.Diff(nil, got))
				}
			}
		})
	}
}
