package process_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"queen.internal/pkg/pgserver/process"
)

// holderVariable makes this test program act as the holder of a lifeline that will be killed.
const holderVariable = "QUEEN_TEST_LIFELINE_FOLDER"

func TestMain(m *testing.M) {
	if folder := os.Getenv(holderVariable); folder != "" {
		holdLifeline(folder)
	}
	goleak.VerifyTestMain(m)
}

// holdLifeline starts two children, takes one off again, prints both ids and waits for its end.
func holdLifeline(folder string) {
	line, err := process.NewLifeline()
	if err != nil {
		panic(err)
	}
	guarded, freed := exec.Command("sleep", "600"), exec.Command("sleep", "600")
	for _, cmd := range []*exec.Cmd{guarded, freed} {
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		if err := line.Add(cmd.Process.Pid, syscall.SIGTERM, syscall.SIGKILL); err != nil {
			panic(err)
		}
	}
	if err := line.Remove(freed.Process.Pid); err != nil {
		panic(err)
	}
	if err := line.RemoveFolder(folder); err != nil {
		panic(err)
	}
	fmt.Println(guarded.Process.Pid, freed.Process.Pid)
	select {}
}

func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s did not happen", what)
		case <-ticker.C:
		}
	}
}

func TestRuns(t *testing.T) {
	t.Parallel()
	cmd := sleeper(t)
	waitFor(t, "exec of sleep", func() bool { return process.Runs(cmd.Process.Pid, []string{"sleep", "600"}) })
	if process.Runs(cmd.Process.Pid, []string{"sleep", "601"}) {
		t.Error("other arguments match")
	}
	if process.Runs(0, nil) || process.Runs(-1, []string{""}) {
		t.Error("a number that is no process id matches")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Killed but not yet waited for: the id is still taken, the program is gone.
	waitFor(t, "end of sleep", func() bool { return !process.Runs(cmd.Process.Pid, []string{"sleep", "600"}) })
	if !process.Exists(cmd.Process.Pid) {
		t.Error("a process that was not waited for counts as gone")
	}
	_ = cmd.Wait()
	if process.Exists(cmd.Process.Pid) {
		t.Error("a process that was waited for counts as there")
	}
}

func TestLifeline(t *testing.T) {
	t.Parallel()

	t.Run("EndsChildrenAndFolderOfAKilledHolder", func(t *testing.T) {
		t.Parallel()
		folder := filepath.Join(t.TempDir(), "with a blank")
		if err := os.MkdirAll(filepath.Join(folder, "inner"), 0o755); err != nil {
			t.Fatal(err)
		}
		holder := exec.Command(os.Args[0])
		holder.Env = append(os.Environ(), holderVariable+"="+folder)
		out, err := holder.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := holder.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		guarded, freed := twoNumbers(t, line)
		t.Cleanup(func() { _ = syscall.Kill(freed, syscall.SIGKILL) })

		if err := holder.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = holder.Wait()
		waitFor(t, "end of the guarded child", func() bool { return process.CommandLine(guarded) == "" })
		waitFor(t, "removal of the folder", func() bool {
			_, err := os.Stat(folder)
			return os.IsNotExist(err)
		})
		if process.CommandLine(freed) == "" {
			t.Error("a child that was taken off the lifeline ended too")
		}
	})

	t.Run("LeavesChildrenAloneWhenClosed", func(t *testing.T) {
		t.Parallel()
		cmd := sleeper(t)
		line, err := process.NewLifeline()
		if err != nil {
			t.Fatal(err)
		}
		if err := line.Add(cmd.Process.Pid, syscall.SIGTERM, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := line.Close(); err != nil {
			t.Fatal(err)
		}
		if process.CommandLine(cmd.Process.Pid) == "" {
			t.Error("the child ended")
		}
		if err := line.Remove(cmd.Process.Pid); err == nil {
			t.Error("a closed lifeline takes orders")
		}
	})
}

func twoNumbers(t *testing.T, line string) (int, int) {
	t.Helper()
	first, second, _ := strings.Cut(strings.TrimSpace(line), " ")
	a, errA := strconv.Atoi(first)
	b, errB := strconv.Atoi(second)
	if errA != nil || errB != nil {
		t.Fatalf("holder printed %q: %v, %v", line, errA, io.ErrUnexpectedEOF)
	}
	return a, b
}
