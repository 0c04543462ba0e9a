package stand

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// EmptyDisk takes away what FillDisk wrote.
func (s *Stand) EmptyDisk() error {
	if err := os.Remove(filepath.Join(s.Disk, "ballast")); err != nil {
		return fmt.Errorf("empty the disk: %w", err)
	}
	return nil
}
