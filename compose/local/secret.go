package local

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// meshSecret is what the processes of a stack know each other by. It is made once and stays in the stack's folder, so that
// a process which outlived a runner and one that is started later still do.
func meshSecret(dir string) (string, error) {
	path := filepath.Join(dir, "mesh.secret")
	kept, err := os.ReadFile(path)
	switch {
	case err == nil && len(kept) > 0:
		return string(kept), nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("read the mesh's secret: %w", err)
	}
	secret := rand.Text()
	if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
		return "", fmt.Errorf("keep the mesh's secret: %w", err)
	}
	return secret, nil
}
