package pgserver

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// folder is the place of one server: data, password, port and lock.
type folder struct {
	path string
	lock *os.File
}

func (f *folder) data() string             { return filepath.Join(f.path, "data") }
func (f *folder) file(name string) string  { return filepath.Join(f.path, name) }
func (f *folder) clusterExists() bool      { return exists(filepath.Join(f.data(), "PG_VERSION")) }
func (f *folder) postmasterFile() string   { return filepath.Join(f.data(), "postmaster.pid") }
func (f *folder) unfinishedData() string   { return f.data() + ".new" }
func (f *folder) writePort(port int) error { return writeFile(f.file("port"), strconv.Itoa(port)+"\n") }

// otherBases are where a server folder goes when the wanted one cannot be entered by the server's user. Only root gets
// there. /var/lib outlives the clean-up of temporary files, so it comes first.
var otherBases = []string{"/var/lib", "/var/tmp"}

// openFolder creates the folder, or its replacement, and takes its lock.
func openFolder(wanted string, who account, logger *slog.Logger) (*folder, error) {
	path, err := filepath.Abs(wanted)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", wanted, err)
	}
	if err := makeFolder(path); err != nil {
		return nil, err
	}
	if !who.canEnter(path) {
		other, err := replacement(path, who, otherBases)
		if err != nil {
			return nil, err
		}
		logger.Info("the data folder is elsewhere, because its user cannot enter the wanted one",
			"target", "postgres", "user", who.name, "wanted", path, "folder", other)
		path = other
	}
	f := &folder{path: path}
	if f.lock, err = takeLock(f.file("lock")); err != nil {
		return nil, err
	}
	return f, nil
}

// makeFolder lets other users pass through but not list: the cluster inside belongs to the server's user alone. The
// mode is set again because a strict umask would keep that user out; a folder that was there keeps its mode.
func makeFolder(path string) error {
	if exists(path) {
		return nil
	}
	if err := os.MkdirAll(path, 0o711); err != nil {
		return fmt.Errorf("create the database folder: %w", err)
	}
	if err := os.Chmod(path, 0o711); err != nil {
		return fmt.Errorf("create the database folder: %w", err)
	}
	return nil
}

// replacement derives a stable name, so that the next start finds the same data.
func replacement(path string, who account, bases []string) (string, error) {
	sum := sha256.Sum256([]byte(path))
	name := "queen-" + hex.EncodeToString(sum[:6])
	var errs []error
	for _, base := range bases {
		other := filepath.Join(base, name)
		if _, err := os.Stat(base); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := errors.Join(makeFolder(other), mustBeOurs(other)); err != nil {
			errs = append(errs, err)
			continue
		}
		if who.canEnter(other) {
			return other, nil
		}
		errs = append(errs, fmt.Errorf("%s cannot enter %s", who.name, other))
	}
	return "", fmt.Errorf("find a database folder that %s can enter: %w", who.name, errors.Join(errs...))
}

// mustBeOurs refuses a folder that somebody else prepared in a place where anybody may create one.
func mustBeOurs(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is not a folder that only this user may write", path)
	}
	return nil
}

// release ends the lock at once. Closing alone would leave it to a child that is just being started: it shares the file
// until its own program runs.
func (f *folder) release() {
	_ = syscall.Flock(int(f.lock.Fd()), syscall.LOCK_UN) // closing does it as well, if later
	_ = f.lock.Close()
}

// takeLock refuses when another living program runs a server here.
func takeLock(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the database folder: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("the database in %s is in use by another running program", filepath.Dir(name))
	}
	return file, nil
}

// password reads the cluster's password or, before the cluster exists, makes one.
func (f *folder) password() (string, error) {
	raw, err := os.ReadFile(f.file("password"))
	if err == nil && strings.TrimSpace(string(raw)) != "" {
		return strings.TrimSpace(string(raw)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the database password: %w", err)
	}
	if f.clusterExists() {
		return "", fmt.Errorf("the password of the cluster in %s is gone: put %s back or remove both", f.data(), f.file("password"))
	}
	secret := rand.Text()
	return secret, writeFile(f.file("password"), secret+"\n")
}

// choosePort prefers the port of the last run, so that written-down addresses stay right, and else takes a free one.
// wanted, when set, is the only answer.
func (f *folder) choosePort(wanted int) (int, error) {
	if wanted != 0 {
		return wanted, nil
	}
	if raw, err := os.ReadFile(f.file("port")); err == nil {
		if port, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil && PortFree(port) {
			return port, nil
		}
	}
	return FreePort()
}

// writeFile replaces a file as a whole, readable by its owner only.
func writeFile(name, text string) error {
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// TemporaryFolder makes an empty folder that the server's user can enter; one inside a private home, or a test's own
// temporary folder, often is not. The caller removes it.
func TemporaryFolder() (string, error) {
	who, err := chooseAccount()
	if err != nil {
		return "", err
	}
	var errs []error
	for _, base := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		path, err := os.MkdirTemp(base, "queen-postgres-")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if err := os.Chmod(path, 0o711); err == nil && who.canEnter(path) {
			return path, nil
		}
		_ = os.Remove(path)
		errs = append(errs, fmt.Errorf("%s cannot enter %s", who.name, path))
	}
	return "", fmt.Errorf("make a temporary database folder: %w", errors.Join(errs...))
}
