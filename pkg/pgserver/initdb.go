package pgserver

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// superuser is the role that initdb creates.
const superuser = "postgres"

// ensureCluster creates the cluster when there is none. It works on a folder beside the final one and renames it when
// complete, because a half-made cluster looks like a real one to PostgreSQL.
func ensureCluster(ctx context.Context, f *folder, b Binaries, who account, password string, durable bool) error {
	if f.clusterExists() {
		return nil
	}
	if exists(f.data()) {
		return fmt.Errorf("%s exists but holds no PostgreSQL cluster: move it away", f.data())
	}
	fresh := f.unfinishedData()
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("clear an unfinished cluster: %w", err)
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return fmt.Errorf("create the data folder: %w", err)
	}
	if err := who.own(fresh); err != nil {
		return err
	}
	if err := initdb(ctx, f, b, who, password, durable); err != nil {
		return err
	}
	if err := os.Rename(fresh, f.data()); err != nil {
		return fmt.Errorf("put the new cluster in place: %w", err)
	}
	return nil
}

func initdb(ctx context.Context, f *folder, b Binaries, who account, password string, durable bool) error {
	// initdb reads the password from a file that its user can read; the kept one belongs to us alone.
	secret := f.file("password.initdb")
	defer func() { _ = os.Remove(secret) }() // gone already when writing it went wrong
	if err := os.WriteFile(secret, []byte(password+"\n"), 0o600); err != nil {
		return fmt.Errorf("hand the password to initdb: %w", err)
	}
	if err := who.own(secret); err != nil {
		return err
	}
	argv := []string{
		"--pgdata=" + f.unfinishedData(), "--username=" + superuser, "--pwfile=" + secret,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-instructions",
	}
	if !durable {
		argv = append(argv, "--no-sync")
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, b.program("initdb"), argv...)
	cmd.Dir, cmd.Env = "/", serverEnvironment()
	cmd.Stdout, cmd.Stderr = &out, &out
	who.apply(cmd)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("create a cluster with %s: %w: %s", b.program("initdb"), err, lastLines(out.String(), 5))
	}
	return nil
}

// serverEnvironment leaves out everything of the caller's that PostgreSQL would read (PGDATA, PGPORT, locale).
func serverEnvironment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
}

// clusterMajor reads which PostgreSQL version an existing cluster belongs to.
func clusterMajor(f *folder) (int, error) {
	raw, err := os.ReadFile(filepath.Join(f.data(), "PG_VERSION"))
	if err != nil {
		return 0, fmt.Errorf("read the version of the cluster: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return 0, fmt.Errorf("read the version of the cluster in %s: %w", f.data(), err)
	}
	return major, nil
}
