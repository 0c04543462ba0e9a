package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"queen.internal/compose/local"
	"queen.internal/pkg/config"
)

// settings of a stack, from the environment; make passes its own variables on.
type settings struct {
	// Dir is the stack's folder; the default is .queen in the checkout.
	Dir string `envconfig:"QUEEN_STACK_DIR"`
	// EdgePort is the edge's port, the other native ports follow it.
	EdgePort config.Int `envconfig:"EDGE_PORT" range:"1..65000"`
	// Ingest and Deliver are numbers of copies.
	Ingest  config.Int `envconfig:"INGEST" range:"1..32"`
	Deliver config.Int `envconfig:"DELIVER" range:"1..32"`
	// Detach returns once the stack is healthy and leaves it running.
	Detach config.Bool `envconfig:"DETACH"`
}

func loadSettings() (settings, error) {
	s := settings{EdgePort: local.DefaultEdgePort, Ingest: 1, Deliver: 1}
	if err := config.Load(&s); err != nil {
		return s, err
	}
	if s.Dir == "" {
		root, err := local.Root(".")
		if err != nil {
			return s, fmt.Errorf("%w (or name the stack's folder in QUEEN_STACK_DIR)", err)
		}
		s.Dir = filepath.Join(root, ".queen")
	}
	dir, err := filepath.Abs(s.Dir)
	if err != nil {
		return s, fmt.Errorf("resolve QUEEN_STACK_DIR: %w", err)
	}
	s.Dir = dir
	return s, nil
}

func (s settings) options() local.Options {
	return local.Options{
		Dir: s.Dir, EdgePort: int(s.EdgePort), Ingest: int(s.Ingest), Deliver: int(s.Deliver),
		InstallPostgres: true, Log: os.Stdout, Colour: isTerminal(os.Stdout),
	}
}

// isTerminal decides about colours; NO_COLOR is the convention by which people refuse them.
func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&fs.ModeCharDevice != 0 && file.Name() != os.DevNull &&
		os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

var errUsage = errors.New(`usage: stack up | down
  up     start PostgreSQL and the services, show their log, stop everything on Ctrl-C
  down   stop a stack that was left running
  Environment: QUEEN_STACK_DIR, EDGE_PORT, INGEST, DELIVER, DETACH=1`)
