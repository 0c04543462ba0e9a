package cell

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"queen.internal/compose/local"
)

// stopLimit is what the services of a stack and its database get to end in order.
const stopLimit = 30 * time.Second

// World is what the stacks of one test program share. Its fields are set by Main.
type World struct {
	Folder   string // of this run, removed at its end
	Binaries string // where the services were built to

	mu     sync.Mutex
	shared map[string]*started
}

// started is a shared stack, or why there is none.
type started struct {
	cell *Cell
	err  error
}

// Main builds the services of this checkout, runs the tests and stops the shared stacks. It returns the exit code.
func Main(m *testing.M, w *World) int {
	folder, err := os.MkdirTemp("", "queen-test-")
	if err == nil {
		// A folder that the database's account can enter.
		err = os.Chmod(folder, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := os.RemoveAll(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	w.Folder, w.Binaries = folder, filepath.Join(folder, "bin")
	w.shared = map[string]*started{}
	root, err := local.Root(".")
	if err == nil {
		err = local.Build(context.Background(), root, w.Binaries, "test")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	for name, s := range w.shared {
		if s.err != nil {
			continue // the tests have told why
		}
		if code != 0 {
			complain(os.Stderr, name, s.cell.Stack)
		}
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		if err := s.cell.Stack.Stop(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "stop the stack %s: %v\n", name, err)
			code = 1
		}
		cancel()
	}
	return code
}

// complain repeats what the services of a shared stack complained of, for whoever reads why a test failed.
func complain(to io.Writer, name string, stack *local.Stack) {
	for _, service := range append(local.Names(), local.Postgres) {
		var lines []string
		for line := range strings.Lines(stack.Logs(service)) {
			if strings.Contains(line, "edge: address ") {
				continue // it has seen them start
			}
			if strings.Contains(line, " WARN ") || strings.Contains(line, " ERROR ") || strings.Contains(line, "FATAL") {
				lines = append(lines, line)
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(to, "%s of the stack %s complained:\n%s", service, name, strings.Join(lines[max(0, len(lines)-30):], ""))
		}
	}
}

// Shared is the stack of that name. Who asks first starts it, with opts; it runs until all tests have ended. Tests that
// use it keep apart by their queues.
func (w *World) Shared(t *testing.T, name string, opts local.Options) *Cell {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.shared[name]
	if s == nil {
		opts.Dir, opts.Binaries, opts.Throwaway = filepath.Join(w.Folder, "shared-"+strings.ReplaceAll(name, " ", "-")), w.Binaries, true
		s = new(started)
		var stack *local.Stack
		if stack, s.err = local.Start(context.Background(), opts); s.err == nil {
			s.cell = of(stack)
		}
		w.shared[name] = s
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.cell
}

// Own starts a stack for one test and stops it at its end; a failed test prints its logs.
func (w *World) Own(t *testing.T, opts local.Options) *Cell {
	t.Helper()
	opts.Dir, opts.Binaries, opts.Throwaway = w.stackFolder(t), w.Binaries, true
	stack, err := local.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, service := range append(local.Names(), local.Postgres) {
				t.Logf("%s printed:\n%s", service, LastLines(stack.Logs(service), 40))
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		if err := stack.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return of(stack)
}

func (w *World) stackFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp(w.Folder, "stack-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

// LastLines is the end of a log.
func LastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
