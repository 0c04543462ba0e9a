package pgserver

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is the system user that PostgreSQL runs as: the current one, or another when the program is root, because
// PostgreSQL refuses root.
type account struct {
	name string
	// credential is nil when the server runs as the current user.
	credential *syscall.Credential
}

func chooseAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{name: "the current user"}, nil
	}
	for _, name := range []string{"postgres", "_postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseInt(u.Uid, 10, 64)
		gid, gidErr := strconv.ParseInt(u.Gid, 10, 64)
		if uidErr != nil || gidErr != nil || uid == 0 {
			continue
		}
		// No supplementary groups: the server needs none, and root's must not leak into it. The conversion keeps
		// the negative numbers that macOS gives to nobody.
		return account{name: name, credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return account{}, fmt.Errorf("run PostgreSQL without root: neither the user postgres nor nobody exists")
}

// apply makes cmd run as this user, in a session of its own: a Ctrl-C at the terminal must reach the runner only, which
// stops the database last.
func (a account) apply(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential, Setsid: true}
}

// own gives a path to this user.
func (a account) own(path string) error {
	if a.credential == nil {
		return nil
	}
	if err := os.Chown(path, int(a.credential.Uid), int(a.credential.Gid)); err != nil {
		return fmt.Errorf("give %s to %s: %w", path, a.name, err)
	}
	return nil
}

// canEnter asks the system rather than reading mode bits, so that access lists and mount options count too.
func (a account) canEnter(folder string) bool {
	if a.credential == nil {
		return true
	}
	cmd := exec.Command("/bin/sh", "-c", `cd -- "$1"`, "sh", folder)
	cmd.Dir = "/"
	a.apply(cmd)
	return cmd.Run() == nil
}
