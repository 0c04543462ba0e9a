// Package disk is what a spool asks of the operating system: files that are appended to, folders that are made durable,
// and a lock that ends with its process. FS is an interface because tests put a disk that fails on order in its place; it
// promises what POSIX does and no more.
package disk

import (
	"errors"
	"io"
	"io/fs"
)

// File is an open file.
type File interface {
	io.ReaderAt
	io.Writer // at the end
	io.Closer
	Sync() error
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
}

// Lock is a lock on a file that its process holds until it ends or Release is called.
type Lock interface {
	// Held says whether the lock's file is still the one under its path. If not, somebody removed it, and another process
	// may hold a lock of that name.
	Held() bool
	Release() error
}

// ErrLocked means that another process, or another part of this one, holds the lock.
var ErrLocked = errors.New("locked by another process")

// FS is a file system. Paths are absolute. A change of a folder is durable once SyncDir has returned.
type FS interface {
	MkdirAll(path string) error
	Mkdir(path string) error // an error that is fs.ErrExist when there is one
	ReadDir(path string) ([]fs.DirEntry, error)
	SyncDir(path string) error
	Create(path string) (File, error) // an error that is fs.ErrExist when there is one
	Open(path string) (File, error)   // to read, to append and to cut
	Remove(path string) error         // a file, or a folder that is empty
	Rename(from, to string) error
	Stat(path string) (fs.FileInfo, error)
	Lock(path string) (Lock, error)  // creates the file; does not wait
	Free(path string) (int64, error) // bytes that may still be written
}

// Linked says whether f is still what lies under path.
func Linked(fsys FS, path string, f File) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := fsys.Stat(path)
	return err == nil && sameFile(mine, there)
}
