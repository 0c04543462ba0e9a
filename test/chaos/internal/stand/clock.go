package stand

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"queen.internal/pkg/pgserver"
)

// ErrNoClock says that the machine lacks what moves a server's clock.
var ErrNoClock = errors.New("libfaketime is not installed (Debian: apt-get install faketime)")

// clock is the file from which libfaketime reads by how much the server's clock is off.
type clock struct{ path string }

// newClock makes stand-ins for PostgreSQL's programs that run it under libfaketime. They lie where the server's account
// can read them.
func newClock(dir string) (*clock, pgserver.Binaries, error) {
	library := faketime()
	if library == "" {
		return nil, pgserver.Binaries{}, ErrNoClock
	}
	real, err := pgserver.Find()
	if err != nil {
		return nil, pgserver.Binaries{}, err
	}
	programs := filepath.Join(dir, "clocked")
	if err := os.MkdirAll(programs, 0o755); err != nil {
		return nil, pgserver.Binaries{}, fmt.Errorf("make a clock: %w", err)
	}
	c := &clock{filepath.Join(programs, "offset")}
	// Nothing is cached, so that each reading looks into the file; the monotonic clock stays, as it does when a real
	// clock is set.
	environment := fmt.Sprintf("LD_PRELOAD=%s FAKETIME_TIMESTAMP_FILE=%s FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1 "+
		"FAKETIME_DISABLE_SHM=1", library, c.path)
	scripts := map[string]string{
		"postgres": "exec env " + environment + " " + real.Folder + `/postgres "$@"`,
		"initdb":   "exec " + real.Folder + `/initdb "$@"`,
	}
	for name, line := range scripts {
		if err := os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\n"+line+"\n"), 0o755); err != nil {
			return nil, pgserver.Binaries{}, fmt.Errorf("make a clock: %w", err)
		}
	}
	return c, pgserver.Binaries{Folder: programs, Major: real.Major}, c.set(0)
}

// set replaces the file at once, so that no reader sees half of it.
func (c *clock) set(offset time.Duration) error {
	text := fmt.Sprintf("%+d\n", int64(offset/time.Second))
	if err := os.WriteFile(c.path+".new", []byte(text), 0o644); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	if err := os.Rename(c.path+".new", c.path); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	return nil
}

// SetClock puts the database's clock off by so much, in whole seconds.
func (s *Stand) SetClock(offset time.Duration) error {
	if s.clock == nil {
		return ErrNoClock
	}
	return s.clock.set(offset)
}

// faketime is where packages put the library; empty where it is not.
func faketime() string {
	for _, pattern := range []string{"/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/lib64/faketime", "/usr/local/lib/faketime"} {
		found, _ := filepath.Glob(pattern + "/libfaketime.so.1") // the patterns are constants and well formed
		if len(found) > 0 {
			return found[0]
		}
	}
	return ""
}
