package spool

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"queen.internal/services/ingest/internal/spool/disk"
	"queen.internal/services/ingest/internal/spool/frame"
)

// Again is what somebody has moved from the folder of what was set aside to the one of what is to be tried again. One process
// at a time has it. It belongs to one goroutine.
type Again struct {
	Names []string // of files, those of a spool by the sequence of their record

	folder *Folder
	lock   disk.Lock
}

// Kept is a file of records by itself.
type Kept struct {
	Spool uuid.UUID // where they come from
	Items []*Item   // never settled
}

// ErrNoRecords means that a file has something else than records.
var ErrNoRecords = errors.New("the file is no whole record of a spool")

// Again is what is to be tried again; nil when there is nothing, or another process is at it.
func (f *Folder) Again() (*Again, error) {
	names, err := f.wanted()
	if err != nil || len(names) == 0 {
		return nil, err
	}
	lock, err := f.o.FS.Lock(filepath.Join(f.againPath(), lockName))
	switch {
	case errors.Is(err, disk.ErrLocked), errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("take what is to be tried again: %w", err)
	}
	// Whoever had the lock before may have done with some.
	if names, err = f.wanted(); err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return &Again{Names: names, folder: f, lock: lock}, nil
}

// wanted are the names of the files that are to be tried again.
func (f *Folder) wanted() (names []string, err error) {
	entries, err := f.o.FS.ReadDir(f.againPath())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look for what is to be tried again: %w", err)
	}
	for _, e := range entries {
		if e.Name() != lockName && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		spoolA, sequenceA := origin(a)
		spoolB, sequenceB := origin(b)
		return cmp.Or(strings.Compare(spoolA, spoolB), cmp.Compare(sequenceA, sequenceB), strings.Compare(a, b))
	})
	return names, nil
}

// origin takes the name apart that SetAside gives.
func origin(name string) (spool string, sequence uint64) {
	cut := strings.LastIndexByte(name, '-')
	digits, _, ok := strings.Cut(name[cut+1:], ".")
	if sequence, err := strconv.ParseUint(digits, 10, 64); ok && err == nil {
		return name[:max(cut, 0)], sequence
	}
	return name, 0
}

// Load reads a file. The error is ErrNoRecords when it has, or also has, something else than records of one spool, and
// otherwise the disk's.
func (a *Again) Load(name string) (*Kept, error) {
	data, err := a.read(name)
	if err != nil {
		return nil, fmt.Errorf("read what is to be tried again: %w", err)
	}
	id, ok := frame.Owner(data)
	if _, err := frame.ParseHeader(id, data); !ok || err != nil {
		return nil, ErrNoRecords
	}
	k := &Kept{Spool: id}
	scanner := frame.NewScanner(bytes.NewReader(data), id, frame.HeaderSize, int64(len(data)), 0)
	for {
		piece, err := scanner.Next()
		switch {
		case err == io.EOF && len(k.Items) > 0:
			return k, nil
		case err != nil || piece.Damaged:
			return nil, ErrNoRecords
		}
		k.Items = append(k.Items, &Item{Record: piece.Record})
	}
}

func (a *Again) read(name string) (data []byte, err error) {
	h, err := a.folder.o.FS.Open(filepath.Join(a.folder.againPath(), name))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	info, err := h.Stat()
	if err != nil {
		return nil, err
	}
	data = make([]byte, info.Size())
	if n, err := h.ReadAt(data, 0); n < len(data) {
		return nil, err
	}
	return data, nil
}

// Done removes a file whose records need not be kept any more.
func (a *Again) Done(name string) error {
	fsys, path := a.folder.o.FS, a.folder.againPath()
	if err := errors.Join(fsys.Remove(filepath.Join(path, name)), fsys.SyncDir(path)); err != nil {
		return fmt.Errorf("remove what was tried again: %w", err)
	}
	return nil
}

// Return moves a file back to what was set aside.
func (a *Again) Return(name string) error {
	fsys, path := a.folder.o.FS, a.folder.againPath()
	err := fsys.Rename(filepath.Join(path, name), filepath.Join(a.folder.asidePath(), name))
	if err == nil {
		err = errors.Join(fsys.SyncDir(a.folder.asidePath()), fsys.SyncDir(path))
	}
	if err != nil {
		return fmt.Errorf("set aside what was tried again: %w", err)
	}
	return nil
}

// Release lets other processes have what is left.
func (a *Again) Release() error { return a.lock.Release() }
