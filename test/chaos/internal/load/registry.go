package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Workload is what is done with one queue.
type Workload struct {
	Name, Code string // Code is its number in the plan of the campaign
	About      string
	Options    string   // of the queue, as JSON
	RetryLimit int      // of the queue
	Groups     []string // they begin at the start of the queue, and must have read everything in the end
	Clients    []Kind
}

// Kind is a number of clients that do the same. Step is done again and again.
type Kind struct {
	Name  string
	Count int
	Step  func(q *Queue, ctx context.Context, c *Caller)
}

// Caller is one client: its name and its choices.
type Caller struct {
	*rand.Rand
	Name string
	Seq  int // of what it has pushed
}

// Workloads are all there are. Another one is a file and a line here.
func Workloads() []Workload { return []Workload{logWorkload, queueWorkload, dedupWorkload} }

// Names lists them.
func Names() (names []string) {
	for _, w := range Workloads() {
		names = append(names, w.Name)
	}
	return names
}

// Find is the workloads of these names.
func Find(names []string) (found []Workload, err error) {
	for _, name := range names {
		i := slices.IndexFunc(Workloads(), func(w Workload) bool { return w.Name == name || strings.EqualFold(w.Code, name) })
		if i < 0 {
			return nil, fmt.Errorf("there is no workload %q, only %s", name, strings.Join(Names(), ", "))
		}
		found = append(found, Workloads()[i])
	}
	return found, nil
}
