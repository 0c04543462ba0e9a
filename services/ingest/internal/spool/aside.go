package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
)

// keep makes a durable file of what could not be used, in the folder of what was set aside. One that is there already has
// the same bytes: names say where they come from.
func (f *Folder) keep(name string, data []byte) error {
	fsys, path := f.o.FS, filepath.Join(f.asidePath(), name)
	if _, err := fsys.Stat(path); err == nil {
		return nil
	}
	// Written under another name first, so that a file that is there is complete.
	partial := path + partialSuffix
	if err := fsys.Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("set bytes of the spool aside: %w", err)
	}
	h, err := fsys.Create(partial)
	if err != nil {
		return fmt.Errorf("set bytes of the spool aside: %w", err)
	}
	if _, err = h.Write(data); err == nil {
		err = h.Sync()
	}
	err = errors.Join(err, h.Close())
	if err == nil {
		err = fsys.Rename(partial, path)
	}
	if err == nil {
		err = fsys.SyncDir(f.asidePath())
	}
	if err != nil {
		return fmt.Errorf("set bytes of the spool aside: %w", err)
	}
	f.aside.Add(1)
	return nil
}

const partialSuffix = ".partial"

// CountAside counts what lies in the folder of what was set aside, since others change it, too.
func (f *Folder) CountAside() error {
	entries, err := f.o.FS.ReadDir(f.asidePath())
	if err != nil {
		return fmt.Errorf("list what was set aside: %w", err)
	}
	n := int64(0)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), partialSuffix) {
			n++
		}
	}
	f.aside.Store(n)
	return nil
}

// Try says why the disk takes nothing, nil when it does.
func (f *Folder) Try() error {
	fsys, path := f.o.FS, f.tryPath()
	h, err := fsys.Create(path)
	if err != nil {
		return err
	}
	if _, err = h.Write(make([]byte, tryBytes)); err == nil {
		err = h.Sync()
	}
	return errors.Join(err, h.Close(), fsys.Remove(path))
}

func (f *Folder) tryPath() string {
	return filepath.Join(f.o.Root, fmt.Sprintf("try.%s", uuid.NewString()))
}

// tryBytes is a block of most disks.
const tryBytes = 4096

// Aside is how many pieces and records lie in the folder of what was set aside, of all processes that used this root: as of the
// last count, and what this one added since.
func (f *Folder) Aside() int64 { return f.aside.Load() }
