package drive

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"queen.internal/compose/demo/internal/ledger"
	"queen.internal/pkg/client"
)

// victimLease is short, so that the end of the dead worker's lease is not waited for long.
const victimLease = 3 * time.Second

// report is one line the victim writes: a delivery, or at last how many messages it holds.
type report struct {
	Partition string `json:"partition,omitempty"`
	Sequence  int    `json:"sequence"`
	Intact    bool   `json:"intact,omitempty"`
	Held      int    `json:"held,omitempty"`
}

// Victim is the worker that is going to be killed, in its own process: it takes one batch, writes what it got to out, and
// holds it without acknowledging until ctx ends.
func Victim(ctx context.Context, c *client.Client, queue, group string, run Run, out io.Writer) error {
	lines := &reporter{out: json.NewEncoder(out)}
	batch, err := worker{client: c, queue: queue, run: run, group: group, lease: victimLease, book: lines}.take(ctx)
	if err != nil {
		return err
	}
	lines.write(report{Held: len(batch.Messages)})
	if lines.err != nil {
		return lines.err
	}
	<-ctx.Done()
	return nil
}

// reporter is a book that writes lines. It is used by one goroutine.
type reporter struct {
	out *json.Encoder
	err error
}

func (r *reporter) Delivered(_, partition string, sequence int, intact bool) {
	r.write(report{Partition: partition, Sequence: sequence, Intact: intact})
}

func (r *reporter) Acked(string, string, int) { r.err = errors.New("a victim acknowledges nothing") }

func (r *reporter) write(line report) { r.err = errors.Join(r.err, r.out.Encode(line)) }

// Death is what became of the victim.
type Death struct {
	Group string
	Held  int // messages under its lease when it was killed; 0 when it never got any
	At    time.Time
}

// sacrifice starts the victim, passes on what it reports and kills it as soon as it holds a batch. When ctx ends before
// that, it kills it then.
func sacrifice(ctx context.Context, command *exec.Cmd, l *ledger.Ledger, group string, now func() time.Time) (Death, error) {
	// The victim reads this pipe and ends when nobody holds the other side any more, should this process be killed itself.
	if _, err := command.StdinPipe(); err != nil {
		return Death{}, fmt.Errorf("start the victim: %w", err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return Death{}, fmt.Errorf("start the victim: %w", err)
	}
	if err := command.Start(); err != nil {
		return Death{}, fmt.Errorf("start the victim: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = command.Process.Kill() }) // one that has ended is not missed
	defer stop()

	death := Death{Group: group}
	lines := bufio.NewScanner(out)
	for death.Held == 0 && lines.Scan() {
		var line report
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return Death{}, errors.Join(fmt.Errorf("report of the victim: %w", err), command.Process.Kill(), reap(command))
		}
		if line.Held > 0 {
			death.Held = line.Held
		} else {
			l.Delivered(group, line.Partition, line.Sequence, line.Intact)
		}
	}
	death.At = now()
	killed := command.Process.Kill()
	waited := reap(command)
	if death.Held == 0 && ctx.Err() == nil {
		return Death{}, errors.Join(errors.New("the victim ended by itself"), lines.Err(), waited)
	}
	if killed != nil && ctx.Err() == nil {
		return Death{}, fmt.Errorf("kill the victim: %w", killed)
	}
	return death, nil
}

// reap waits for the process; that it was killed is what we wanted.
func reap(command *exec.Cmd) error {
	err := command.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() < 0 {
		return nil
	}
	return err
}
