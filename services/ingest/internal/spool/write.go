package spool

import (
	"errors"
	"fmt"
	"path/filepath"

	"queen.internal/services/ingest/internal/spool/disk"
	"queen.internal/services/ingest/internal/spool/frame"
)

// Entry is a record that is to be stored.
type Entry struct {
	Version, Flags uint8
	Body           []byte
}

// write is one call of Append. Its result is written by whoever has the turn, and read with the turn.
type write struct {
	entries []Entry
	size    int64
	done    bool
	err     error
}

// ErrLost means that the spool's folder was removed, or its lock taken, under a living process. Nothing more can be stored
// in it; another one can be made.
var ErrLost = errors.New("the spool's folder is not ours any more")

// Append stores entries, all or none, in their order. Nil says that they are on the disk. It blocks for as long as the disk
// takes. Errors: ErrFull, ErrLost, and what the disk said.
func (s *Spool) Append(entries []Entry) error {
	w := &write{entries: entries}
	for i := range entries {
		w.size += frame.Size(len(entries[i].Body))
	}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.mu.Unlock()

	<-s.turn
	defer func() { s.turn <- struct{}{} }()
	if !w.done {
		s.mu.Lock()
		batch := s.waiting
		s.waiting = nil
		s.mu.Unlock()
		s.commit(batch)
	}
	return w.err
}

// commit gives every write of a batch its result. The caller has the turn.
func (s *Spool) commit(batch []*write) {
	var fitting []*write
	var size int64
	for _, w := range batch {
		w.done = true
		if w.err = s.ended; w.err != nil {
			continue
		}
		if w.err = s.folder.Room(size + w.size); w.err == nil {
			fitting, size = append(fitting, w), size+w.size
		}
	}
	if len(fitting) == 0 {
		return
	}
	if err := s.store(fitting, size); err != nil {
		for _, w := range fitting {
			w.err = err
		}
	}
}

// store writes, fsyncs, and looks whether all that is still where others will find it.
func (s *Spool) store(batch []*write, size int64) error {
	f, err := s.open()
	if err != nil {
		return err
	}
	buf, records := make([]byte, 0, size), 0
	for _, w := range batch {
		for _, e := range w.entries {
			buf = frame.Append(buf, s.name.ID, frame.Record{
				Sequence: s.next + uint64(records), Version: e.Version, Flags: e.Flags, Body: e.Body,
			})
			records++
		}
	}
	if _, err := s.active.Write(buf); err != nil {
		return s.fail(f, fmt.Errorf("write to the spool: %w", err))
	}
	if err := s.active.Sync(); err != nil {
		return s.fail(f, fmt.Errorf("make the spool durable: %w", err))
	}
	if !s.lock.Held() || !disk.Linked(s.folder.o.FS, s.path(f.number), s.active) {
		s.ended = ErrLost
		return s.fail(f, ErrLost)
	}
	s.next += uint64(records)
	s.mu.Lock()
	f.end += int64(len(buf))
	f.records += records
	full := f.end >= s.folder.o.FileBytes || f.records >= s.folder.o.FileRecords
	s.mu.Unlock()
	s.folder.bytes.Add(int64(len(buf)))
	if full {
		if err := s.seal(nil); err != nil {
			s.folder.o.Logger.Warn("close a spool file", "spool", s.name.String(), "file", f.number, "err", err)
		}
	}
	return nil
}

// open is the active file, begun when there is none. The new file's name is durable before anything in it is answered for.
func (s *Spool) open() (*file, error) {
	if s.active != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.files[len(s.files)-1], nil
	}
	// A number is used once: what was begun under it may still lie there.
	s.number++
	fsys, path := s.folder.o.FS, s.path(s.number)
	h, err := fsys.Create(path)
	if err != nil {
		if !s.lock.Held() {
			s.ended = ErrLost
			return nil, ErrLost
		}
		return nil, fmt.Errorf("begin a spool file: %w", err)
	}
	header := frame.AppendHeader(nil, frame.Header{Spool: s.name.ID, Number: s.number, First: s.next})
	if _, err = h.Write(header); err == nil {
		err = fsys.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		// It holds nothing; a file that stays is found empty.
		return nil, errors.Join(fmt.Errorf("begin a spool file: %w", err), h.Close(), fsys.Remove(path))
	}
	f := &file{number: s.number, first: s.next, end: int64(len(header)), limit: ^uint64(0)}
	s.active = h
	s.mu.Lock()
	s.files = append(s.files, f)
	s.mu.Unlock()
	s.folder.bytes.Add(f.end)
	return f, nil
}

// fail seals f at what was answered for, and returns err with what went wrong besides.
func (s *Spool) fail(f *file, err error) error {
	cut := s.active.Truncate(f.end)
	if cut == nil {
		cut = s.active.Sync()
	}
	if sealed := s.seal(cut); sealed != nil {
		s.folder.o.Logger.Error("a spool file that failed could not be cut", "spool", s.name.String(), "file", f.number, "err", sealed)
	}
	if f.records == 0 {
		s.forget(f)
	}
	return err
}

// forget removes the last file, which holds nothing that was answered for: a full disk must not fill with empty ones.
func (s *Spool) forget(f *file) {
	if s.folder.o.FS.Remove(s.path(f.number)) != nil {
		return // the reader comes by
	}
	s.mu.Lock()
	s.files = s.files[:len(s.files)-1]
	s.mu.Unlock()
	s.folder.bytes.Add(-f.end)
}

// seal ends the active file, if there is one. It returns err joined with what closing said. The caller has the turn.
func (s *Spool) seal(err error) error {
	if s.active == nil {
		return err
	}
	closed := s.active.Close()
	s.active = nil
	s.mu.Lock()
	f := s.files[len(s.files)-1]
	f.sealed = true
	s.mu.Unlock()
	return errors.Join(err, closed)
}
