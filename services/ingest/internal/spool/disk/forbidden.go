package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Forbidden says that err means a folder which this process may not write, whoever makes room on its disk.
func Forbidden(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// Private says why path cannot be trusted with what others may not see or add to: it is no folder, or it belongs to, or can
// be written by, another user. It is nil for a folder of this process's user alone.
func Private(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", path)
	case ok && int(owner.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user", path)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s can be written by other users", path)
	}
	return nil
}
