package process

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// Exists reports whether a process with this id exists, including one that has ended but was not waited for.
func Exists(pid int) bool {
	if pid <= 0 {
		return false
	}
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// CommandLine returns the arguments of a running process joined by single blanks. It is empty when there is no such
// process, or when it has ended and only waits to be collected.
func CommandLine(pid int) string {
	if pid <= 0 {
		return ""
	}
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err == nil {
		return strings.ReplaceAll(strings.TrimRight(string(raw), "\x00"), "\x00", " ")
	}
	if _, statErr := os.Stat("/proc/self/cmdline"); statErr == nil {
		return "" // this system has /proc, so the process is gone
	}
	out, err := exec.Command("ps", "-ww", "-o", "stat=", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	state, args, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if strings.HasPrefix(state, "Z") {
		return ""
	}
	return strings.TrimSpace(args)
}

// Runs reports whether pid is a running process that was started with exactly these arguments. A number that the
// system gave to another program meanwhile does not match, which is what makes it safe to signal a pid read from a file.
func Runs(pid int, argv []string) bool {
	line := CommandLine(pid)
	return line != "" && line == strings.Join(argv, " ")
}
