// Package faketime runs PostgreSQL under libfaketime, so that the server's clock can be put off while it runs. It is for
// tests and for programs that test; it imports no testing package, and concurrent use of one clock is its caller's affair.
package faketime

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"queen.internal/pkg/pgserver"
)

// ErrNotInstalled says that the machine lacks the library.
var ErrNotInstalled = errors.New("libfaketime is not installed (Debian: apt-get install faketime)")

// Clock is the file from which servers read by how much their clock is off.
type Clock struct{ path string }

// New makes, in a folder that the server's account can read, a clock that is right, and stand-ins for PostgreSQL's programs
// which run under it. The error is ErrNotInstalled where there is no library.
func New(folder string) (*Clock, pgserver.Binaries, error) {
	found := library()
	if found == "" {
		return nil, pgserver.Binaries{}, ErrNotInstalled
	}
	real, err := pgserver.Find()
	if err != nil {
		return nil, pgserver.Binaries{}, err
	}
	c := &Clock{filepath.Join(folder, "offset")}
	// No cache: each reading looks into the file. The monotonic clock stays, as in a step of the real one.
	postgres := fmt.Sprintf("exec env LD_PRELOAD=%s FAKETIME_TIMESTAMP_FILE=%s FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 "+
		"NO_FAKE_STAT=1 FAKETIME_DISABLE_SHM=1 %s/postgres \"$@\"", found, c.path, real.Folder)
	for name, line := range map[string]string{"postgres": postgres, "initdb": fmt.Sprintf("exec %s/initdb \"$@\"", real.Folder)} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+line+"\n"), 0o755); err != nil {
			return nil, pgserver.Binaries{}, fmt.Errorf("make a clock: %w", err)
		}
	}
	return c, pgserver.Binaries{Folder: folder, Major: real.Major}, c.Set(0)
}

// Installed says whether the machine has the library.
func Installed() bool { return library() != "" }

// Set puts the clock off by so much, in whole seconds. The file is replaced at once, so that no reader sees half of it.
func (c *Clock) Set(offset time.Duration) error {
	text := fmt.Sprintf("%+d\n", int64(offset/time.Second))
	if err := os.WriteFile(c.path+".new", []byte(text), 0o644); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	if err := os.Rename(c.path+".new", c.path); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	return nil
}

// library is where Debian, Red Hat or a build from source put it; empty where it is not.
func library() string {
	for _, pattern := range []string{"/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/lib64/faketime", "/usr/local/lib/faketime"} {
		found, _ := filepath.Glob(pattern + "/libfaketime.so.1") // the patterns are constants and well formed
		if len(found) > 0 {
			return found[0]
		}
	}
	return ""
}
