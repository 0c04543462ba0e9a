package local

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"queen.internal/pkg/pgserver"
)

// The services of a stack, by the names that URL and the control methods take.
const (
	Ingest     = "ingest"
	Deliver    = "deliver"
	Maintainer = "maintainer"
	Console    = "console"
	Edge       = "edge"
	// Postgres is the database's name in log prefixes and errors; it is no service.
	Postgres = "postgres"
)

// DefaultEdgePort is the native port of the edge. The other native ports lie nativeOffset above the edge's.
const DefaultEdgePort = 6632

// service is one row of what a stack consists of.
type service struct {
	name   string
	binary string
	// offset is the distance of its native port from the edge's.
	offset int
}

// services in the order in which they are started and listed.
var services = []service{
	{Ingest, "ingest", 9},
	{Deliver, "deliver", 10},
	{Maintainer, "maintainer", 11},
	{Console, "console", 12},
	{Edge, "gateway", 0},
}

// Names lists the services of a stack in order.
func Names() []string {
	var names []string
	for _, s := range services {
		names = append(names, s.name)
	}
	return names
}

// Options describe a stack. Only Dir must be set.
type Options struct {
	// Dir is the stack's folder; it is created.
	Dir string
	// Binaries is the folder with ingest, deliver, maintainer, console and gateway. Empty: Dir/bin.
	Binaries string
	// Ingest and Deliver are numbers of copies; 0 means 1.
	Ingest, Deliver int
	// EdgePort is the edge's port; it must be free, and the other native ports follow it where they are free. 0 takes
	// free ports for all.
	EdgePort int
	// Env holds NAME=value for every service, on top of what they need; ServiceEnv the same for one service.
	Env        []string
	ServiceEnv map[string][]string
	// Log receives the merged log, one write per line; nil drops it. Colour adds escape codes for a terminal.
	Log    io.Writer
	Colour bool
	// HealthLimit is how long the started services may take until all are healthy; 0 means a minute.
	HealthLimit time.Duration
	// Throwaway removes the database at the end, also if this program is killed. It is as durable as any other.
	Throwaway bool
	// Through, when set, is asked for each connection between parts of the stack which port to dial: from and to are names
	// of processes ("ingest.2", "edge", "postgres"), port is where the other one listens. What it returns is dialled
	// instead, at every start. It is called before anything but the database runs.
	Through func(from, to string, port int) int
	// Postgres is which PostgreSQL to run; the zero value means to find one.
	Postgres pgserver.Binaries
	// InstallPostgres allows installing Debian's package when there is no PostgreSQL and this is root.
	InstallPostgres bool
}

func (o Options) normalized() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("start a stack: no folder given")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, fmt.Errorf("resolve the stack's folder: %w", err)
	}
	o.Dir = dir
	if o.Binaries == "" {
		o.Binaries = BinFolder(dir)
	}
	if o.Binaries, err = filepath.Abs(o.Binaries); err != nil {
		return o, fmt.Errorf("resolve the folder of binaries: %w", err)
	}
	o.Ingest, o.Deliver = max(o.Ingest, 1), max(o.Deliver, 1)
	if o.HealthLimit <= 0 {
		o.HealthLimit = time.Minute
	}
	for name := range o.ServiceEnv {
		if !slices.Contains(Names(), name) {
			return o, fmt.Errorf("settings for %q: there is no such service", name)
		}
	}
	return o, nil
}

func (o Options) copies(service string) int {
	switch service {
	case Ingest:
		return o.Ingest
	case Deliver:
		return o.Deliver
	default:
		return 1
	}
}

// BinFolder is where Build puts the services of a stack.
func BinFolder(dir string) string { return filepath.Join(dir, "bin") }

// pair splits NAME=value.
func pair(entry string) (name, value string) {
	name, value, _ = strings.Cut(entry, "=")
	return name, value
}
