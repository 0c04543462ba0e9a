// Package files replaces small files as a whole.
package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Replace writes a file so that whoever reads it finds the old one or the new one, after a loss of power as well. Several
// processes may do that at once.
func Replace(path string, data []byte) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	partial, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	if _, err = partial.Write(data); err == nil {
		err = partial.Sync()
	}
	if err = errors.Join(err, partial.Close()); err == nil {
		err = os.Rename(partial.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(partial.Name()))
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
