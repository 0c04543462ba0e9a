package mesh

import (
	"slices"
	"strings"
	"sync"
)

// Names of switches that more than one service obeys.
const (
	PushMaintenance = "push_maintenance" // pushes go to the spool
	PopMaintenance  = "pop_maintenance"  // pops find nothing
)

// Switch is a mode that all processes share. The database gives each change its version; the higher one wins wherever
// and whenever it is heard.
type Switch struct {
	Name    string `json:"name"`
	On      bool   `json:"on"`
	Version int64  `json:"version"`
}

// maxSwitches bounds what peers can make a process remember.
const maxSwitches = 64

// switches are the highest versions known.
type switches struct {
	mu    sync.Mutex
	known []Switch // by name
}

// offer takes s when it is newer than what is known.
func (w *switches) offer(s Switch) (taken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, found := w.find(s.Name)
	switch {
	case found && w.known[i].Version >= s.Version, !found && len(w.known) >= maxSwitches:
		return false
	case found:
		w.known[i] = s
	default:
		w.known = slices.Insert(w.known, i, s)
	}
	return true
}

func (w *switches) find(name string) (int, bool) {
	return slices.BinarySearchFunc(w.known, name, func(s Switch, name string) int { return strings.Compare(s.Name, name) })
}

// stale says whether s is older than what is known, or contradicts it.
func (w *switches) stale(s Switch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, found := w.find(s.Name)
	return found && (w.known[i].Version > s.Version || w.known[i].Version == s.Version && w.known[i].On != s.On)
}

func (w *switches) all() []Switch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.known)
}

func (w *switches) on(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, found := w.find(name)
	return found && w.known[i].On
}
