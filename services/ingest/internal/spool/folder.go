package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"

	"queen.internal/services/ingest/internal/spool/disk"
)

// Options say where spools lie and how much of the disk they may take. Every field but Logger must be set.
type Options struct {
	FS     disk.FS
	Root   string // absolute; made when it is missing
	Server string // this process's server id
	Logger *slog.Logger

	MaxBytes    int64 // of all spools of this process together; 0 is no limit
	MinFree     int64 // bytes that are left to others
	FileBytes   int64 // a file of this size or more is not appended to
	FileRecords int   // nor one of as many records
}

// Folder is the root under which the spools of one machine's processes lie. It is safe for concurrent use.
type Folder struct {
	o      Options
	server string
	bytes  atomic.Int64 // of all spools of this process
	aside  atomic.Int64 // files in the folder of what was set aside
}

// ErrFull means that a record was not stored because of a limit of ours.
var ErrFull = errors.New("the spool is full")

// ErrAlive means that a spool belongs to a process that lives.
var ErrAlive = errors.New("the spool belongs to a living process")

// Open makes the root usable. It fails when the root cannot be written, or lies on a file system whose locks and fsyncs are
// another machine's.
func Open(o Options) (*Folder, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	f := &Folder{o: o, server: ServerName(o.Server)}
	for _, path := range []string{f.asidePath(), f.againPath()} {
		if err := o.FS.MkdirAll(path); err != nil {
			return nil, fmt.Errorf("make the spool's folder: %w", err)
		}
	}
	if kind, err := disk.Remote(o.Root); err != nil {
		return nil, err
	} else if kind != "" {
		return nil, fmt.Errorf("the spool's folder %s is on a network file system (%s)", o.Root, kind)
	}
	if err := errors.Join(o.FS.SyncDir(filepath.Dir(o.Root)), o.FS.SyncDir(o.Root)); err != nil {
		return nil, fmt.Errorf("make the spool's folder durable: %w", err)
	}
	if err := f.writable(); err != nil {
		return nil, err
	}
	if err := f.CountAside(); err != nil {
		return nil, err
	}
	return f, nil
}

// writable says that files cannot be made in the root, whatever room there is. A disk that is full, or that fails, is not meant:
// what waits on it can still be brought to the database, and it may take something again.
func (f *Folder) writable() error {
	path := f.tryPath()
	h, err := f.o.FS.Create(path)
	if err == nil {
		err = errors.Join(h.Close(), f.o.FS.Remove(path))
	}
	if disk.Forbidden(err) {
		return fmt.Errorf("write to the spool's folder: %w", err)
	}
	return nil
}

// Bytes is how much of the disk the spools of this process take.
func (f *Folder) Bytes() int64 { return f.bytes.Load() }

// Room says why nothing can be stored now, or nil. It is wrapped ErrFull or the disk's own error.
func (f *Folder) Room(size int64) error {
	if f.o.MaxBytes > 0 && f.bytes.Load()+size > f.o.MaxBytes {
		return fmt.Errorf("%w: %d bytes of %d are taken", ErrFull, f.bytes.Load(), f.o.MaxBytes)
	}
	free, err := f.o.FS.Free(f.o.Root)
	if err != nil {
		return err
	}
	if free-size < f.o.MinFree {
		return fmt.Errorf("%w: the disk has %d bytes left, of which %d belong to others", ErrFull, free, f.o.MinFree)
	}
	return nil
}

// Dead lists the spools under the root, oldest first, that have no living owner as far as a look can tell: those of this
// server id, or all when everybody's are asked for.
func (f *Folder) Dead(everybody bool) ([]Name, error) {
	entries, err := f.o.FS.ReadDir(f.o.Root)
	if err != nil {
		return nil, fmt.Errorf("look for spools: %w", err)
	}
	var found []Name
	for _, e := range entries {
		name, ok := parseName(e.Name())
		if !ok || !e.IsDir() || !everybody && name.Server != f.server {
			continue
		}
		found = append(found, name)
	}
	// The ids begin with the time at which they were made.
	slices.SortFunc(found, func(a, b Name) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	return found, nil
}

func (f *Folder) path(name Name) string { return filepath.Join(f.o.Root, name.String()) }

func (f *Folder) asidePath() string { return filepath.Join(f.o.Root, asideName) }

func (f *Folder) againPath() string { return filepath.Join(f.o.Root, againName) }

// createAttempts bounds how often an adopter may take a folder between its creation and its lock.
const createAttempts = 5

// Create makes a spool for this process.
func (f *Folder) Create() (*Spool, error) {
	var met error
	for range createAttempts {
		name := Name{Server: f.server, ID: uuid.Must(uuid.NewV7())}
		path := f.path(name)
		if err := f.o.FS.Mkdir(path); err != nil {
			return nil, fmt.Errorf("make a spool: %w", err)
		}
		lock, err := f.o.FS.Lock(filepath.Join(path, lockName))
		if errors.Is(err, disk.ErrLocked) || errors.Is(err, fs.ErrNotExist) {
			met = err
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("make a spool: %w", err)
		}
		if err := errors.Join(f.o.FS.SyncDir(path), f.o.FS.SyncDir(f.o.Root)); err != nil {
			return nil, errors.Join(fmt.Errorf("make a spool durable: %w", err), lock.Release())
		}
		return newSpool(f, name, lock), nil
	}
	return nil, fmt.Errorf("make a spool: %w", met)
}

// Adopt takes the spool of a dead process. The error is ErrAlive when its process lives, and fs.ErrNotExist when it has
// been removed.
func (f *Folder) Adopt(name Name) (*Spool, error) {
	path := f.path(name)
	if _, err := f.o.FS.Stat(path); err != nil {
		return nil, fmt.Errorf("adopt a spool: %w", err)
	}
	lock, err := f.o.FS.Lock(filepath.Join(path, lockName))
	switch {
	case errors.Is(err, disk.ErrLocked):
		return nil, ErrAlive
	case err != nil:
		return nil, fmt.Errorf("adopt a spool: %w", err)
	}
	s := newSpool(f, name, lock)
	if err := s.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("adopt spool %s: %w", name, err), lock.Release())
	}
	return s, nil
}
