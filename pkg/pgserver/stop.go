package pgserver

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// StopPatience is how long a fast shutdown may take before an immediate one follows.
const StopPatience = 5 * time.Second

// Stop ends the server: fast shutdown, and an immediate one when that takes longer than StopPatience or than the
// context allows. Data is safe either way; after an immediate shutdown the next start recovers. It returns when the
// process has ended. Stopping an ended server only cleans up.
func (s *Server) Stop(ctx context.Context) error {
	s.stop.Lock()
	defer s.stop.Unlock()
	defer s.letGo()
	signals := []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL}
	if s.opts.Throwaway {
		signals = signals[1:] // nobody will recover it
	}
	for i, sig := range signals {
		_ = s.cmd.Process.Signal(sig) // fails only when it has ended, which the wait below sees
		// The context shortens the polite shutdown alone: an immediate one needs its moment in any case.
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopPatience)
		if i == 0 {
			cancel()
			wait, cancel = context.WithTimeout(ctx, StopPatience)
		}
		select {
		case <-s.done:
			cancel()
			return nil
		case <-wait.Done():
			cancel()
		}
	}
	<-s.done
	return fmt.Errorf("PostgreSQL (pid %d) had to be killed", s.cmd.Process.Pid)
}

// Kill ends the postmaster with SIGKILL, as a crash would, and returns when it was collected. The folder stays as the
// crash left it, a throw-away one too; a new Start recovers it.
func (s *Server) Kill() error {
	err := s.cmd.Process.Kill()
	<-s.done
	s.release.Do(s.closeHolders)
	if err != nil {
		return fmt.Errorf("kill PostgreSQL (pid %d): %w", s.cmd.Process.Pid, err)
	}
	return nil
}

// letGo frees what the Server holds beside its process.
func (s *Server) letGo() {
	s.release.Do(func() {
		s.closeHolders()
		if s.opts.Throwaway {
			_ = os.RemoveAll(s.folder.path)
		}
	})
}

func (s *Server) closeHolders() {
	if s.lifeline != nil {
		_ = s.lifeline.Close() // it may have been killed; its work is over in any case
	}
	s.folder.release()
}

// passing reports whether the last start failed for a reason that goes away by itself.
func (s *Server) passing() bool {
	output := s.tail.String()
	portTaken := s.opts.Port == 0 && strings.Contains(output, "could not bind")
	return portTaken || strings.Contains(output, "pre-existing shared memory block")
}
