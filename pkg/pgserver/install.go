package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// noClusterSetting tells Debian's package not to create and start a cluster of its own.
const noClusterSetting = "create_main_cluster = false\n"

// FindOrInstall finds PostgreSQL and, where there is none, installs Debian's package when it may: as root, on Debian or
// a system made from it. Anywhere else it is Find. Needs the network only when it installs.
func FindOrInstall(ctx context.Context, logger *slog.Logger) (Binaries, error) {
	found, err := Find()
	if !errors.Is(err, ErrNotInstalled) || !CanInstall() {
		return found, err
	}
	if err := Install(ctx, logger); err != nil {
		return Binaries{}, err
	}
	return Find()
}

// CanInstall reports whether Install may run here.
func CanInstall() bool {
	_, err := exec.LookPath("apt-get")
	return err == nil && os.Geteuid() == 0 && exists("/etc/debian_version")
}

// Install installs Debian's postgresql package without letting it create a cluster. It needs root.
func Install(ctx context.Context, logger *slog.Logger) error {
	if !CanInstall() {
		return fmt.Errorf("%w and cannot be installed from here; %s", ErrNotInstalled, InstallHint())
	}
	if err := refuseDefaultCluster("/etc/postgresql-common"); err != nil {
		return err
	}
	logger.Info("installing the postgresql package, its own cluster stays uncreated", "target", "postgres")
	install := []string{"apt-get", "install", "-y", "--no-install-recommends", "postgresql"}
	err := runQuiet(ctx, install)
	if err == nil {
		return nil
	}
	// A fresh machine has no package lists yet; one refresh, one more try.
	if err := runQuiet(ctx, []string{"apt-get", "update"}); err != nil {
		return err
	}
	return runQuiet(ctx, install)
}

// refuseDefaultCluster must come before the package: its post-install step reads this folder.
func refuseDefaultCluster(base string) error {
	folder := filepath.Join(base, "createcluster.d")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("keep the postgresql package from creating a cluster: %w", err)
	}
	name := filepath.Join(folder, "queen.conf")
	if err := os.WriteFile(name, []byte(noClusterSetting), 0o644); err != nil {
		return fmt.Errorf("keep the postgresql package from creating a cluster: %w", err)
	}
	return nil
}

// runQuiet runs a package command and shows its output only when it goes wrong.
func runQuiet(ctx context.Context, argv []string) error {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Stdout, cmd.Stderr = io.Writer(&out), io.Writer(&out)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run %q: %w: %s", strings.Join(argv, " "), err, lastLines(out.String(), 5))
	}
	return nil
}
