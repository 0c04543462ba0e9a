package spool

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"queen.internal/services/ingest/internal/spool/disk"
)

// writerRoot names the root, in a process that is this test program again and writes until it is killed.
const writerRoot = "QUEEN_TEST_SPOOL_ROOT"

// keepWriting appends records with four goroutines and prints the text of each that was answered.
func keepWriting(root string) error {
	f, err := Open(Options{FS: disk.OS{}, Root: root, Server: "ingest-0", FileBytes: 1 << 20, FileRecords: 20})
	if err != nil {
		return err
	}
	s, err := f.Create()
	if err != nil {
		return err
	}
	failed := make(chan error)
	for writer := range 4 {
		go func() {
			for n := 0; ; n++ {
				text := fmt.Sprintf("%d.%d", writer, n)
				if err := s.Append(entry(text)); err != nil {
					failed <- err
					return
				}
				fmt.Println(text)
			}
		}()
	}
	return <-failed
}

func TestAKilledWriterLosesNothingThatItAnswered(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for round := range 5 {
		root := t.TempDir()
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), writerRoot+"="+root)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var answered []string
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			answered = append(answered, lines.Text())
			if len(answered) == 50+17*round {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // it was killed
		b := setup(t, func(o *Options) { o.FS, o.Root = disk.OS{}, root })
		a := b.adopt(t)
		found := drain(t, a)
		if a.Damage().SetAside > 0 || a.Damage().Missing > 0 {
			t.Fatalf("%+v", a.Damage())
		}
		next := map[string]int{}
		for _, text := range found {
			var writer, number int
			if _, err := fmt.Sscanf(text, "%d.%d", &writer, &number); err != nil {
				t.Fatal(err)
			}
			if number != next[fmt.Sprint(writer)] {
				t.Fatalf("record %s, want number %d", text, next[fmt.Sprint(writer)])
			}
			next[fmt.Sprint(writer)]++
		}
		for _, text := range answered {
			if !slices.Contains(found, text) {
				t.Fatalf("%s was answered and is not there", text)
			}
		}
		if len(answered) < 50 {
			t.Fatalf("only %d answers", len(answered))
		}
	}
}
