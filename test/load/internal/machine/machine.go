// Package machine looks at the machine while something is measured on it: how much processor time the measured processes
// take, how much memory they hold at most, how long the disk takes to sync. It reads /proc, so it works on Linux only.
package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is one that is watched. Of a tree its children count too, those that end meanwhile included: PostgreSQL works
// in a process for each connection.
type Process struct {
	Name string
	PID  int
	Tree bool
}

// Usage is what one process took in a window.
type Usage struct {
	Name string `json:"name"`
	// CPU is in seconds, of user and system.
	CPU float64 `json:"cpu"`
	// Peak is the most memory it held, in bytes. Of a tree it is the sum at the end of the window, shared pages counted once.
	Peak int64 `json:"peak_bytes"`
}

// Seen is what a window has shown. Cores are averages over the window.
type Seen struct {
	Usage  []Usage
	Own    float64 // cores of the calling program
	Others float64 // cores of everything else on the machine, which should be none
}

// Watch is an open window.
type Watch struct {
	processes []Process
	before    []time.Duration
	own, busy time.Duration
	start     time.Time
}

// Start opens a window and forgets earlier peaks.
func Start(processes []Process) (*Watch, error) {
	w := &Watch{processes: processes}
	for _, p := range processes {
		if !p.Tree {
			// Not everybody may reset the mark; then the peak is that of the process's whole life.
			if err := os.WriteFile(file(p.PID, "clear_refs"), []byte("5"), 0); err != nil && !errors.Is(err, fs.ErrPermission) {
				return nil, fmt.Errorf("reset the peak memory of %s: %w", p.Name, err)
			}
		}
		taken, err := p.taken()
		if err != nil {
			return nil, err
		}
		w.before = append(w.before, taken)
	}
	var err error
	w.own, w.start = Own(), time.Now()
	w.busy, err = busy()
	return w, err
}

// Stop closes the window.
func (w *Watch) Stop() (Seen, error) {
	elapsed, own := time.Since(w.start), Own()-w.own
	all, err := busy()
	if err != nil {
		return Seen{}, err
	}
	others := all - w.busy - own
	seen := Seen{Own: own.Seconds() / elapsed.Seconds()}
	for i, p := range w.processes {
		taken, err := p.taken()
		if err != nil {
			return seen, err
		}
		peak, err := p.memory()
		if err != nil {
			return seen, err
		}
		seen.Usage = append(seen.Usage, Usage{p.Name, (taken - w.before[i]).Seconds(), peak})
		others -= taken - w.before[i]
	}
	seen.Others = max(0, others.Seconds()/elapsed.Seconds()) // times are rounded to ticks
	return seen, nil
}

// busy is the time that all processors together have worked since the machine started.
func busy() (time.Duration, error) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("read the processors' time: %w", err)
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	fields := strings.Fields(line)
	var total time.Duration
	for i, field := range fields {
		// cpu user nice system idle iowait irq softirq; what guests of a virtual machine take is in user
		if i == 0 || i == 4 || i == 5 || i > 7 {
			continue
		}
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the processors' time: %w", err)
		}
		total += time.Duration(n) * tick
	}
	return total, nil
}

// Own is the processor time that the calling program has taken.
func Own() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // it knows no other failure than a bad argument
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func file(pid int, name string) string { return filepath.Join("/proc", strconv.Itoa(pid), name) }

// tick is the unit of times in /proc; the kernel shows every architecture's users a hundredth of a second.
const tick = 10 * time.Millisecond

// taken is the processor time so far, of a tree with that of its children, dead or alive.
func (p Process) taken() (time.Duration, error) {
	own, err := readStat(p.PID)
	if err != nil {
		return 0, fmt.Errorf("read the processor time of %s: %w", p.Name, err)
	}
	if !p.Tree {
		return own.taken, nil
	}
	total := own.taken + own.buried
	children, err := p.children()
	for _, c := range children {
		total += c.taken + c.buried
	}
	return total, err
}

// stat is what is used of /proc/PID/stat.
type stat struct {
	pid, parent   int
	taken, buried time.Duration // its own, and that of children which have ended
}

func (p Process) children() ([]stat, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	var children []stat
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil && s.parent == p.PID { // one that has just ended is in its parent's time
			children = append(children, s)
		}
	}
	return children, nil
}

func readStat(pid int) (stat, error) {
	raw, err := os.ReadFile(file(pid, "stat"))
	if err != nil {
		return stat{}, err
	}
	return parseStat(pid, string(raw))
}

// parseStat reads the line of proc(5). The name in its second field may hold blanks and brackets, so it is skipped by its
// last bracket.
func parseStat(pid int, line string) (stat, error) {
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	const parent, utime, stime, cutime, cstime = 1, 11, 12, 13, 14 // counted from the state, the third field
	s := stat{pid: pid}
	if len(fields) <= cstime {
		return s, fmt.Errorf("process %d: a line of %d fields", pid, len(fields))
	}
	var n [cstime + 1]int64
	for _, i := range []int{parent, utime, stime, cutime, cstime} {
		var err error
		if n[i], err = strconv.ParseInt(fields[i], 10, 64); err != nil {
			return s, fmt.Errorf("process %d: %w", pid, err)
		}
	}
	s.parent = int(n[parent])
	s.taken, s.buried = time.Duration(n[utime]+n[stime])*tick, time.Duration(n[cutime]+n[cstime])*tick
	return s, nil
}

// memory is the peak of a process, or what a tree holds now.
func (p Process) memory() (int64, error) {
	if !p.Tree {
		n, err := kilobytes(p.PID, "status", "VmHWM:")
		if err != nil {
			return 0, fmt.Errorf("read the peak memory of %s: %w", p.Name, err)
		}
		return n, nil
	}
	total, err := kilobytes(p.PID, "smaps_rollup", "Pss:")
	if err != nil {
		return 0, fmt.Errorf("read the memory of %s: %w", p.Name, err)
	}
	children, err := p.children()
	for _, c := range children {
		if n, err := kilobytes(c.pid, "smaps_rollup", "Pss:"); err == nil { // it may just have ended
			total += n
		}
	}
	return total, err
}

// Resident is what a process holds in memory now, in bytes.
func Resident(pid int) (int64, error) { return kilobytes(pid, "status", "VmRSS:") }

// kilobytes reads a line such as "VmHWM: 12 kB" as bytes.
func kilobytes(pid int, name, label string) (int64, error) {
	raw, err := os.ReadFile(file(pid, name))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == label {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("no %s in %s of process %d", label, name, pid)
}

// Sync is how long the disk of a folder takes to write and sync 8 KB: the median of several tries.
func Sync(folder string) (time.Duration, error) {
	f, err := os.CreateTemp(folder, "sync-probe-*")
	if err != nil {
		return 0, fmt.Errorf("probe the disk: %w", err)
	}
	defer func() { _ = f.Close(); _ = os.Remove(f.Name()) }() // a leftover of a few bytes in a folder of ours
	var page [8192]byte
	var took []time.Duration
	for range 21 {
		start := time.Now()
		if _, err := f.WriteAt(page[:], 0); err != nil {
			return 0, fmt.Errorf("probe the disk: %w", err)
		}
		if err := f.Sync(); err != nil {
			return 0, fmt.Errorf("probe the disk: %w", err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
