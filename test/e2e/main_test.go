package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"queen.internal/compose/local"
)

// maxBody is the body limit of the shared stack's services.
const maxBody = 4 << 20

// world is what all tests of the package share.
var world struct {
	folder   string // of this run, removed at its end
	binaries string

	once  sync.Once
	stack *local.Stack
	err   error
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "queen-e2e-")
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
	world.folder, world.binaries = folder, filepath.Join(folder, "bin")
	root, err := local.Root(".")
	if err == nil {
		err = local.Build(context.Background(), root, world.binaries, "e2e")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if world.stack != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := world.stack.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "stop the shared stack:", err)
			return 1
		}
	}
	return code
}

// shared is the stack of two ingests and two delivers that most tests use.
func shared(t *testing.T) *cell {
	t.Helper()
	world.once.Do(func() {
		world.stack, world.err = local.Start(context.Background(), local.Options{
			Dir: filepath.Join(world.folder, "shared"), Binaries: world.binaries, Ingest: 2, Deliver: 2, Throwaway: true,
			Env: []string{fmt.Sprint("QUEEN_MAX_BODY_BYTES=", maxBody)},
		})
	})
	if world.err != nil {
		t.Fatal(world.err)
	}
	return cellOf(world.stack)
}

// own starts a stack for one test and stops it at its end; a failed test prints its logs.
func own(t *testing.T, opts local.Options) *local.Stack {
	t.Helper()
	opts.Dir, opts.Binaries, opts.Throwaway = stackFolder(t), world.binaries, true
	stack, err := local.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, service := range append(local.Names(), local.Postgres) {
				t.Logf("%s printed:\n%s", service, lastLines(stack.Logs(service), 40))
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := stack.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return stack
}

func stackFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp(world.folder, "stack-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}
