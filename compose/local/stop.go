package local

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

const (
	// servicesLimit and stopLimit divide the five seconds that a stop may take: services first, then the database,
	// which then still has time for an immediate shutdown.
	servicesLimit = 3 * time.Second
	stopLimit     = 4500 * time.Millisecond
)

// Stop ends everything within five seconds and keeps the data. Services get SIGTERM and, when their time or the context
// is over, SIGKILL; the database a fast and then an immediate shutdown. Every call returns when all of it has ended.
func (s *Stack) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() { s.stopErr = s.stopAll(ctx) })
	return s.stopErr
}

func (s *Stack) stopAll(ctx context.Context) error {
	s.life.Lock() // waits for a database that is just starting
	s.up.Store(false)
	s.life.Unlock()
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	s.stopServices(ctx)
	errs := []error{s.stopDatabaseForGood(ctx)}
	s.wg.Wait()
	if s.line != nil {
		_ = s.line.Close() // its helper may have been killed; everything it watched has ended
	}
	s.printer.close()
	errs = append(errs, s.closeLogs(), removeState(s.opts.Dir), releaseLock(s.lock))
	return errors.Join(errs...)
}

func (s *Stack) stopServices(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, servicesLimit)
	defer cancel()
	for _, p := range s.processes {
		_, _ = p.signal(syscall.SIGTERM, true) // an error means that it has ended
	}
	for _, p := range s.processes {
		run := p.current()
		if run == nil {
			continue
		}
		select {
		case <-run.done:
			continue
		case <-ctx.Done():
		}
		if _, err := p.signal(syscall.SIGKILL, true); err == nil {
			s.note("%s did not end in time and was killed", p.name)
		}
		<-run.done
	}
}

func (s *Stack) stopDatabaseForGood(ctx context.Context) error {
	s.dbMu.Lock()
	defer s.dbMu.Unlock()
	db := s.db
	s.db = nil
	var err error
	if db != nil {
		if err = db.Stop(ctx); err != nil {
			err = fmt.Errorf("stop the database: %w", err)
		}
		s.dbFolder = db.Folder()
	}
	if s.opts.Throwaway && s.dbFolder != "" {
		err = errors.Join(err, removeDatabase(s.dbFolder))
	}
	return err
}
