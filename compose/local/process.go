package local

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	lifeline "queen.internal/pkg/pgserver/process"
)

// process is one copy of a service: what it is started with, and its current run.
type process struct {
	service, binary string
	offset          int
	copy            int    // from 1
	name            string // in logs: the service, with its copy's number where there are several
	port            int
	displaced       int // the native port that was taken, or 0
	meshPort        int // of its node, or 0

	argv []string
	env  map[string]string
	log  *processLog

	mu  sync.Mutex
	run *run // nil before the first start
}

// run is one life of a process.
type run struct {
	cmd   *exec.Cmd
	asked bool          // somebody ended it on purpose; guarded by process.mu
	done  chan struct{} // closed when it was collected
	err   error         // how it ended; set before done is closed
}

func (p *process) url() string { return "http://127.0.0.1:" + strconv.Itoa(p.port) }

// meshed says whether the service has a node of the mesh.
func (p *process) meshed() bool { return p.service == Ingest || p.service == Deliver }

func (p *process) current() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

// start begins a new life. ended is called from the collecting goroutine, which is counted in wg, when this life ends
// without anybody having asked for it.
func (p *process) start(line *lifeline.Lifeline, wg *sync.WaitGroup, ended func(*process, *run)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil && p.run.alive() {
		return fmt.Errorf("%s runs already", p.name)
	}
	p.log.begin()
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Env = environment(p.env)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	// A session of its own: a Ctrl-C at the terminal is for the runner, which then stops everything in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = 2 * time.Second
	if err := cmd.Start(); err != nil {
		return &StartError{Service: p.name, Reason: err.Error(), LogFile: p.log.path}
	}
	r := &run{cmd: cmd, done: make(chan struct{})}
	p.run = r
	lifelineErr := line.Add(cmd.Process.Pid, syscall.SIGTERM, syscall.SIGKILL)
	wg.Go(func() {
		r.err = cmd.Wait()
		_ = line.Remove(cmd.Process.Pid) // without its helper there is nothing to take it off
		close(r.done)
		p.mu.Lock()
		asked := r.asked
		p.mu.Unlock()
		if !asked {
			ended(p, r)
		}
	})
	return lifelineErr
}

func (r *run) alive() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// how says how an ended run ended.
func (r *run) how() string {
	if r.err == nil {
		return "exit status 0"
	}
	return r.err.Error()
}

// signal sends sig to the current run; purpose is whether it is meant to end it.
func (p *process) signal(sig syscall.Signal, purpose bool) (*run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil || !p.run.alive() {
		return p.run, fmt.Errorf("signal %s: it does not run", p.name)
	}
	p.run.asked = p.run.asked || purpose
	if err := p.run.cmd.Process.Signal(sig); err != nil {
		return p.run, fmt.Errorf("signal %s: %w", p.name, err)
	}
	return p.run, nil
}

// end signals the process and waits until it was collected, or the context is over.
func (p *process) end(ctx context.Context, sig syscall.Signal) error {
	r, err := p.signal(sig, true)
	if err != nil {
		return err
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of %s: %w", p.name, context.Cause(ctx))
	}
}

// StartError says why a stack did not come up: which process, the reason in its own words, and where the rest is.
type StartError struct {
	Service string
	Reason  string
	LogFile string   // empty when it never printed anything
	Lines   []string // the last it printed
}

// Error is the reason in one line; Lines are for a caller that can show more.
func (e *StartError) Error() string {
	text := e.Service + " did not start: " + e.Reason
	if e.LogFile != "" {
		text += "; log file: " + e.LogFile
	}
	return text
}

// newProcesses lists what a stack consists of, in order.
func newProcesses(o Options) []*process {
	var all []*process
	for _, s := range services {
		for n := 1; n <= o.copies(s.name); n++ {
			p := &process{service: s.name, binary: s.binary, offset: s.offset, copy: n, name: s.name}
			if o.copies(s.name) > 1 {
				p.name = fmt.Sprintf("%s.%d", s.name, n)
			}
			p.argv = []string{filepath.Join(o.Binaries, s.binary)}
			all = append(all, p)
		}
	}
	return all
}

var errNoSuchProcess = errors.New("there is no such process")
