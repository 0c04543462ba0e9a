package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// MinimumMajor is the oldest PostgreSQL that Queen supports.
const MinimumMajor = 15

// ErrNotInstalled says that no PostgreSQL of a supported version was found; the text around it names the line to type.
var ErrNotInstalled = errors.New("PostgreSQL is not installed")

// Binaries is a folder with the server programs of one PostgreSQL version.
type Binaries struct {
	// Folder holds postgres and initdb.
	Folder string
	// Major is the version, 15 or higher.
	Major int
}

func (b Binaries) program(name string) string { return filepath.Join(b.Folder, name) }

// installFolders are the places where packages put server programs that are not on the PATH.
var installFolders = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
	"/opt/homebrew/opt/postgresql/bin",
	"/usr/local/opt/postgresql/bin",
	"/usr/local/pgsql/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// Find returns the PostgreSQL to use for a new cluster: the one on the PATH if it is new enough, else the newest one
// installed. The error is ErrNotInstalled with the line to type.
func Find() (Binaries, error) {
	found := All()
	if len(found) == 0 {
		return Binaries{}, fmt.Errorf("%w: version %d or newer is needed; %s", ErrNotInstalled, MinimumMajor, InstallHint())
	}
	return found[0], nil
}

// FindMajor returns a PostgreSQL of exactly this major version, for a cluster that it created.
func FindMajor(major int) (Binaries, error) {
	for _, b := range All() {
		if b.Major == major {
			return b, nil
		}
	}
	return Binaries{}, fmt.Errorf("%w: version %d, which created this data folder, was not found", ErrNotInstalled, major)
}

// All lists every supported PostgreSQL of this machine, the preferred one first.
func All() []Binaries {
	return search(os.Getenv("PATH"), installFolders)
}

func search(path string, patterns []string) []Binaries {
	var found []Binaries
	for _, folder := range filepath.SplitList(path) {
		if b, ok := inspect(folder); ok {
			found = append(found, b)
		}
	}
	var installed []Binaries
	for _, pattern := range patterns {
		folders, _ := filepath.Glob(pattern) // the patterns are constants and well formed
		for _, folder := range folders {
			if b, ok := inspect(folder); ok {
				installed = append(installed, b)
			}
		}
	}
	slices.SortStableFunc(installed, func(a, b Binaries) int { return b.Major - a.Major })
	seen := map[string]bool{}
	return slices.DeleteFunc(append(found, installed...), func(b Binaries) bool {
		known := seen[b.Folder]
		seen[b.Folder] = true
		return known
	})
}

// inspect resolves links first, because a link to postgres alone on the PATH does not bring initdb with it.
func inspect(folder string) (Binaries, bool) {
	program, err := filepath.EvalSymlinks(filepath.Join(folder, "postgres"))
	if err != nil {
		return Binaries{}, false
	}
	folder = filepath.Dir(program)
	if info, err := os.Stat(filepath.Join(folder, "initdb")); err != nil || info.Mode()&0o111 == 0 {
		return Binaries{}, false
	}
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		return Binaries{}, false
	}
	major, ok := parseMajor(string(out))
	return Binaries{Folder: folder, Major: major}, ok && major >= MinimumMajor
}

// versionNumber takes the number out of "postgres (PostgreSQL) 16.4 (Debian 16.4-1)" and "... 18beta1".
var versionNumber = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

func parseMajor(version string) (int, bool) {
	match := versionNumber.FindStringSubmatch(strings.TrimSpace(version))
	if match == nil {
		return 0, false
	}
	major, err := strconv.Atoi(match[1])
	return major, err == nil
}

// InstallHint is the one line to type where PostgreSQL is missing.
func InstallHint() string {
	switch {
	case runtime.GOOS == "darwin":
		return "install it with: brew install postgresql@17"
	case exists("/etc/debian_version"):
		return "install it with: sudo apt-get install -y --no-install-recommends postgresql"
	case exists("/etc/redhat-release"):
		return "install it with: sudo dnf install -y postgresql-server"
	default:
		return "install the PostgreSQL server package of your system"
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
