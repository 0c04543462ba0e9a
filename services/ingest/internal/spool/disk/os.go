package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Permissions: records are readable payloads when no key is set.
const (
	folderMode = 0o750
	fileMode   = 0o640
)

// OS is the real file system.
type OS struct{}

// MkdirAll makes a folder and those above it.
func (OS) MkdirAll(path string) error { return os.MkdirAll(path, folderMode) }

// Mkdir makes a folder.
func (OS) Mkdir(path string) error { return os.Mkdir(path, folderMode) }

// ReadDir lists a folder by name.
func (OS) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }

// Create makes a file.
func (OS) Create(path string) (File, error) {
	return open(path, os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND)
}

// Open opens a file.
func (OS) Open(path string) (File, error) { return open(path, os.O_RDWR|os.O_APPEND) }

func open(path string, flags int) (File, error) {
	f, err := os.OpenFile(path, flags, fileMode)
	if err != nil {
		return nil, err // not a typed nil
	}
	return f, nil
}

// Remove removes a file or an empty folder.
func (OS) Remove(path string) error { return os.Remove(path) }

// Rename gives a file another name, replacing what has it.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Stat describes a file.
func (OS) Stat(path string) (fs.FileInfo, error) { return os.Stat(path) }

// SyncDir makes the entries of a folder durable.
func (OS) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Free is the room that is left for us.
func (OS) Free(path string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return 0, fmt.Errorf("ask for the room in %s: %w", path, err)
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// Lock takes the lock of a file.
func (OS) Lock(path string) (Lock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	l := &lock{path: path, file: f}
	if !l.Held() { // whoever had it before us has removed it
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, fs.ErrNotExist), f.Close())
	}
	return l, nil
}

type lock struct {
	path string
	file *os.File
}

func (l *lock) Held() bool { return Linked(OS{}, l.path, l.file) }

func (l *lock) Release() error { return l.file.Close() }

func sameFile(a, b fs.FileInfo) bool { return os.SameFile(a, b) }
