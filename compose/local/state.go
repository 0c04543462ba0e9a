package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// stateVersion grows when a reader of stack.json would have to change.
const stateVersion = 1

// State is stack.json: what runs and where. It holds the database's passwords, so only its owner may read it.
type State struct {
	Version   int            `json:"version"`
	Edge      string         `json:"edge"` // address of the edge
	Gateway   string         `json:"gateway,omitempty"`
	Runner    int            `json:"runner"` // process id
	Postgres  PostgresState  `json:"postgres"`
	Processes []ProcessState `json:"processes"`
}

// PostgresState is the private database.
type PostgresState struct {
	DSN  string   `json:"dsn"` // of the cluster's superuser, to the services' database
	PID  int      `json:"pid"`
	Data string   `json:"data"`
	Log  string   `json:"log"`
	Argv []string `json:"argv"`
}

// ProcessState is one running service.
type ProcessState struct {
	Service string            `json:"service"`
	Copy    int               `json:"copy"` // from 1
	URL     string            `json:"url"`
	PID     int               `json:"pid"`
	Log     string            `json:"log"`
	Argv    []string          `json:"argv"`
	Env     map[string]string `json:"env"` // what the runner set, beside the inherited environment
}

func statePath(dir string) string { return filepath.Join(dir, "stack.json") }

// ReadState reads the stack.json of a folder. The error is fs.ErrNotExist when no stack is up there.
func ReadState(dir string) (State, error) {
	var state State
	raw, err := os.ReadFile(statePath(dir))
	if err != nil {
		return state, fmt.Errorf("read the state of the stack: %w", err)
	}
	if err := json.Unmarshal(raw, &state); err != nil {
		return state, fmt.Errorf("read %s: %w", statePath(dir), err)
	}
	if state.Version != stateVersion {
		return state, fmt.Errorf("read %s: version %d is not known here", statePath(dir), state.Version)
	}
	return state, nil
}

// write replaces the file in one step: a reader sees the old or the new one, never a part.
func (s State) write(dir string) error {
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write the state of the stack: %w", err)
	}
	fresh, err := os.CreateTemp(dir, "stack.json.*") // mode 0600 from the start
	if err != nil {
		return fmt.Errorf("write the state of the stack: %w", err)
	}
	_, err = fresh.Write(append(raw, '\n'))
	err = errors.Join(err, fresh.Close())
	if err == nil {
		err = os.Rename(fresh.Name(), statePath(dir))
	}
	if err != nil {
		_ = os.Remove(fresh.Name())
		return fmt.Errorf("write the state of the stack: %w", err)
	}
	return nil
}

func removeState(dir string) error {
	if err := os.Remove(statePath(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the state of the stack: %w", err)
	}
	return nil
}
