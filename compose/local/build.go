package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoCheckout says that the current folder is not inside a checkout of Queen.
var ErrNoCheckout = errors.New("not inside a checkout: no go.work with services/ beside it")

// Root finds the checkout that holds folder.
func Root(folder string) (string, error) {
	path, err := filepath.Abs(folder)
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", folder, err)
	}
	for {
		if isFile(filepath.Join(path, "go.work")) && isFile(filepath.Join(path, "services", "ingest", "go.mod")) {
			return path, nil
		}
		parent := filepath.Dir(path)
		if parent == path {
			return "", fmt.Errorf("%s: %w", folder, ErrNoCheckout)
		}
		path = parent
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Build compiles the services of the checkout at root into folder, under their services' names. The version is stamped
// into them. It goes module by module, so that it works with and without the workspace.
func Build(ctx context.Context, root, folder, version string) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return fmt.Errorf("resolve %s: %w", folder, err)
	}
	for _, s := range services {
		var out bytes.Buffer
		cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-X main.version="+version,
			"-o", filepath.Join(folder, s.binary), ".")
		cmd.Dir = filepath.Join(root, "services", s.binary)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("build %s: %w\n%s", s.name, err, strings.TrimSpace(out.String()))
		}
	}
	return nil
}
