package brittle

import (
	"syscall"

	"queen.internal/services/ingest/internal/spool/disk"
)

type file struct {
	disk.File
	disk *Disk
	path string
}

func (f *file) Write(p []byte) (int, error) {
	short, err := f.disk.call("write", f.path)
	if err != nil {
		n, _ := f.File.Write(p[:min(short, len(p))]) // the fault is the error
		return n, err
	}
	f.disk.mu.Lock()
	fits := len(p)
	if f.disk.scarce {
		fits = int(min(int64(fits), f.disk.room))
		f.disk.room -= int64(fits)
	}
	f.disk.mu.Unlock()
	n, err := f.File.Write(p[:fits])
	if err == nil && fits < len(p) {
		err = syscall.ENOSPC
	}
	return n, err
}

func (f *file) Sync() error {
	if _, err := f.disk.call("sync", f.path); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if s := f.disk.files[f.path]; s != nil {
		s.synced = info.Size()
	}
	return nil
}

func (f *file) Truncate(size int64) error {
	if _, err := f.disk.call("truncate", f.path); err != nil {
		return err
	}
	return f.File.Truncate(size)
}
