// Package brittle is a disk for tests that fails on order and forgets what was not made durable. Its files lie on the real
// one, and nothing waits for it: what is durable is only noted. It counts every call by name, so that a test can let the n-th fail, and Crash brings the files to the state in which
// a machine that lost its power might find them.
package brittle

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"queen.internal/services/ingest/internal/spool/disk"
)

// Disk is the disk. The zero value works like the real one. It is safe for concurrent use.
type Disk struct {
	disk.OS

	mu     sync.Mutex
	faults []*fault
	calls  map[string]int
	files  map[string]*state // by path, of those that were written to
	room   int64             // bytes left, when limited
	scarce bool
	gates  map[string]chan struct{}
}

// state is how much of a file would survive.
type state struct {
	synced int64
	named  bool // its folder was made durable after it was created
}

type fault struct {
	call, path string
	left       int // calls until it strikes
	err        error
	short      int // bytes of a write that still happen
	once       bool
}

// Fail lets the n-th call from now that has this name, and a path with this text in it, fail with err; and every later one,
// too, unless once is said.
func (d *Disk) Fail(call, path string, n int, err error, once bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, &fault{call: call, path: path, left: n, err: err, once: once})
}

// FailWrite lets the next write to such a path fail after some bytes, once.
func (d *Disk) FailWrite(path string, short int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, &fault{call: "write", path: path, left: 1, err: err, short: short, once: true})
}

// Heal takes back every fault and limit.
func (d *Disk) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults, d.scarce = nil, false
	for _, gate := range d.gates {
		close(gate)
	}
	d.gates = nil
}

// Limit leaves room for that many bytes of writes; the write that goes beyond it is short.
func (d *Disk) Limit(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room, d.scarce = bytes, true
}

// Hold lets calls of that name wait until Heal.
func (d *Disk) Hold(call string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gates == nil {
		d.gates = map[string]chan struct{}{}
	}
	d.gates[call] = make(chan struct{})
}

// Calls is how often a call was made.
func (d *Disk) Calls(call string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[call]
}

// call counts a call and says whether it fails, and after how many bytes.
func (d *Disk) call(name, path string) (short int, err error) {
	d.mu.Lock()
	if d.calls == nil {
		d.calls = map[string]int{}
	}
	d.calls[name]++
	gate := d.gates[name]
	for i, f := range d.faults {
		if f.call != name || !strings.Contains(path, f.path) {
			continue
		}
		if f.left > 1 {
			f.left--
			continue
		}
		if f.once {
			d.faults = append(d.faults[:i:i], d.faults[i+1:]...)
		}
		short, err = f.short, f.err
		break
	}
	d.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return short, err
}

// Crash cuts every file back to what was made durable and removes those whose names were not. Nothing may be open for
// writing any more.
func (d *Disk) Crash() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for path, s := range d.files {
		err := os.Truncate(path, s.synced)
		if !s.named {
			err = os.Remove(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	d.files = nil
	return errors.Join(errs...)
}

// Create makes a file.
func (d *Disk) Create(path string) (disk.File, error) {
	if _, err := d.call("create", path); err != nil {
		return nil, err
	}
	f, err := d.OS.Create(path)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files == nil {
		d.files = map[string]*state{}
	}
	d.files[path] = &state{}
	return &file{File: f, disk: d, path: path}, nil
}

// Open opens a file.
func (d *Disk) Open(path string) (disk.File, error) {
	if _, err := d.call("open", path); err != nil {
		return nil, err
	}
	f, err := d.OS.Open(path)
	if err != nil {
		return nil, err
	}
	return &file{File: f, disk: d, path: path}, nil
}

// SyncDir makes the names in a folder durable.
func (d *Disk) SyncDir(path string) error {
	if _, err := d.call("syncdir", path); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, s := range d.files {
		s.named = s.named || filepath.Dir(name) == path
	}
	return nil
}

// Remove removes a file or an empty folder.
func (d *Disk) Remove(path string) error {
	if _, err := d.call("remove", path); err != nil {
		return err
	}
	err := d.OS.Remove(path)
	if err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.files, path)
	}
	return err
}

// Rename gives a file another name.
func (d *Disk) Rename(from, to string) error {
	if _, err := d.call("rename", from); err != nil {
		return err
	}
	err := d.OS.Rename(from, to)
	if err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if s := d.files[from]; s != nil {
			d.files[to] = s
			delete(d.files, from)
		}
	}
	return err
}

// Mkdir makes a folder.
func (d *Disk) Mkdir(path string) error {
	if _, err := d.call("mkdir", path); err != nil {
		return err
	}
	return d.OS.Mkdir(path)
}
