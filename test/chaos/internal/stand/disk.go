package stand

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// FillDisk leaves no byte of the spools' disk free.
func (s *Stand) FillDisk() error {
	file, err := os.Create(filepath.Join(s.Disk, "ballast"))
	if err != nil {
		return fmt.Errorf("fill the disk: %w", err)
	}
	block := make([]byte, 64<<10)
	for err == nil {
		_, err = file.Write(block)
	}
	closed := file.Close()
	if !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("fill the disk: %w", err)
	}
	return closed
}

// FillNames leaves room for bytes, and for no other file or folder.
func (s *Stand) FillNames() error {
	folder := filepath.Join(s.Disk, "ballast")
	err := os.Mkdir(folder, 0o700)
	for i := 0; err == nil; i++ {
		err = os.WriteFile(filepath.Join(folder, strconv.Itoa(i)), nil, 0o600)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("fill the disk with files: %w", err)
	}
	return nil
}

// EmptyDisk takes away what FillDisk or FillNames wrote.
func (s *Stand) EmptyDisk() error {
	if err := os.RemoveAll(filepath.Join(s.Disk, "ballast")); err != nil {
		return fmt.Errorf("empty the disk: %w", err)
	}
	return nil
}
