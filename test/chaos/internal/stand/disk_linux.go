package stand

import (
	"fmt"
	"os"
	"syscall"
)

// diskSize is room for what is spooled in a few minutes, and little enough to fill at once.
const diskSize = "64m"

// diskFiles is how many files and folders it takes: far more than spools have.
const diskFiles = "2000"

func mount(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make a disk: %w", err)
	}
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size="+diskSize+",nr_inodes="+diskFiles); err != nil {
		return fmt.Errorf("mount a disk for the spools (it takes root): %w", err)
	}
	return nil
}

func unmount(folder string) error {
	if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the disk of the spools: %w", err)
	}
	return nil
}
