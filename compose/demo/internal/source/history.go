package source

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// ErrShallow says that a repository does not hold its history.
var ErrShallow = errors.New("this clone is shallow, its history is not here: fetch it with `git fetch --unshallow`, " +
	"or demonstrate with a file of JSON lines (--file)")

// rootFolder is the partition of files that lie in no folder.
const rootFolder = "(root)"

// Change is the payload: one file touched by one commit.
type Change struct {
	Commit  string `json:"commit"`
	Author  string `json:"author"`
	Time    string `json:"time"`
	Subject string `json:"subject"`
	Change  string `json:"change"` // git's letter: A added, M modified, D deleted, T type changed
	Path    string `json:"path"`
}

// History yields every (commit, touched file) of the repository at dir, oldest commit first, partitioned by top-level
// folder. A rename is a deletion and an addition; merges touch nothing themselves. The error wraps ErrShallow when the
// history is not complete.
func History(ctx context.Context, dir string) Records {
	return func(yield func(Record, error) bool) {
		shallow, err := git(ctx, dir, "rev-parse", "--is-shallow-repository").Output()
		if err == nil && strings.TrimSpace(string(shallow)) == "true" {
			err = ErrShallow
		}
		if err != nil {
			yield(Record{}, fmt.Errorf("read the history of %s: %w", dir, explain(err)))
			return
		}
		if err := readHistory(ctx, dir, yield); err != nil && !errors.Is(err, errStopped) {
			yield(Record{}, fmt.Errorf("read the history of %s: %w", dir, explain(err)))
		}
	}
}

// errStopped ends the reading when the consumer of the records wants no more.
var errStopped = errors.New("stopped")

func readHistory(ctx context.Context, dir string, yield func(Record, error) bool) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Fields end with NUL, so that paths and subjects may contain anything. Settings of the user that change the output
	// are overridden.
	cmd := git(ctx, dir, "-c", "log.showRoot=true", "-c", "log.showSignature=false", "log", "--topo-order", "--reverse", "-z",
		"--no-color", "--no-ext-diff", "--no-renames", "--name-status", "--encoding=UTF-8", "--format="+commitMark+"%H%x00%aN%x00%aI%x00%s")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			cancel() // git still has more to say, and nobody listens
		}
		if waited := cmd.Wait(); waited != nil && err == nil {
			err = fmt.Errorf("%w: %s", waited, bytes.TrimSpace(complaint.Bytes()))
		}
	}()
	return parseHistory(bufio.NewReader(out), yield)
}

// commitMark begins the first field of a commit; a file's first field is a single letter.
const commitMark = "commit "

func parseHistory(in *bufio.Reader, yield func(Record, error) bool) error {
	var change Change
	for {
		first, err := field(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		first = strings.TrimPrefix(first, "\n") // git begins the list of a commit's files with a line feed
		if hash, ok := strings.CutPrefix(first, commitMark); ok {
			change = Change{Commit: hash}
			for _, into := range []*string{&change.Author, &change.Time, &change.Subject} {
				if *into, err = field(in); err != nil {
					return fmt.Errorf("commit %s: %w", hash, err)
				}
			}
			continue
		}
		change.Change = first
		if change.Path, err = field(in); err != nil {
			return fmt.Errorf("files of commit %s: %w", change.Commit, err)
		}
		payload, err := json.Marshal(change)
		if err != nil {
			return err
		}
		if !yield(Record{Partition: folder(change.Path), Payload: payload}, nil) {
			return errStopped
		}
	}
}

func folder(path string) string {
	top, _, found := strings.Cut(path, "/")
	if !found {
		return rootFolder
	}
	return name(top)
}

// field reads up to the next NUL.
func field(in *bufio.Reader) (string, error) {
	text, err := in.ReadString(0)
	if errors.Is(err, io.EOF) && text != "" {
		return "", io.ErrUnexpectedEOF
	}
	return strings.TrimSuffix(text, "\x00"), err
}

func git(ctx context.Context, dir string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
}

// explain adds what git wrote to an error that only has its exit code.
func explain(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return err
}
