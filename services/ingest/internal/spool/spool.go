package spool

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"

	"queen.internal/services/ingest/internal/spool/disk"
	"queen.internal/services/ingest/internal/spool/frame"
)

// file is one file of a spool. What it holds is fixed when it is sealed. The fields up to sealed are guarded by the
// spool's mutex; the others belong to the reader.
type file struct {
	number  uint64
	first   uint64 // sequence of its first record; 0 when nothing in it tells
	end     int64  // up to here it was answered for
	records int    // of an active one
	sealed  bool

	limit   uint64 // records from this sequence on were never answered for
	read    bool   // the reader has reached the end, and it is sealed
	pending int    // records that were read and not settled
}

// Spool is the records of one process. Make it with Folder.Create or Folder.Adopt; only one that was created takes more.
type Spool struct {
	folder  *Folder
	name    Name
	lock    disk.Lock
	adopted bool // of a dead process: nothing is appended, and its last file may be torn

	turn chan struct{} // holds one token, which whoever writes, seals or removes files has taken

	mu      sync.Mutex
	waiting []*write
	files   []*file // by number

	active disk.File // of the last file, nil when that is sealed; under turn
	number uint64    // of the last file that was begun; under turn
	next   uint64    // sequence of the next record; under turn
	ended  error     // why nothing can be appended any more; under turn
	closed bool      // under turn

	reader reader
}

func newSpool(f *Folder, name Name, lock disk.Lock) *Spool {
	s := &Spool{folder: f, name: name, lock: lock, turn: make(chan struct{}, 1), next: 1}
	s.turn <- struct{}{}
	return s
}

// Name is what the spool is called.
func (s *Spool) Name() Name { return s.name }

// Files is how many files have records that were not removed yet, and the bytes of those files.
func (s *Spool) Files() (files int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		if f.end > frame.HeaderSize {
			files, bytes = files+1, bytes+f.end
		}
	}
	return files, bytes
}

func (s *Spool) path(number uint64) string {
	return filepath.Join(s.folder.path(s.name), fileName(number))
}

var errAdopted = errors.New("the spool is another process's")

// load finds the files of a dead process.
func (s *Spool) load() error {
	s.adopted, s.ended = true, errAdopted
	fsys, path := s.folder.o.FS, s.folder.path(s.name)
	entries, err := fsys.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		number, ok := parseFileName(e.Name())
		if !ok {
			continue
		}
		f, header, err := s.inspect(number)
		if err != nil {
			return err
		}
		if header != number && header != 0 {
			s.folder.o.Logger.Error("a spool file has the name of another one", "spool", s.name.String(), "file", e.Name(), "is", header)
		}
		s.files = append(s.files, f)
		s.folder.bytes.Add(f.end)
	}
	s.arrange()
	return nil
}

// arrange sorts the files by what they say, not by what they are called, in case that somebody mixed them up. One that
// says nothing stays behind those whose names come before its own.
func (s *Spool) arrange() {
	slices.SortFunc(s.files, func(a, b *file) int { return cmp.Compare(a.number, b.number) })
	place, latest := make(map[*file]uint64, len(s.files)), uint64(0)
	for _, f := range s.files {
		latest = max(latest, f.first)
		if place[f] = f.first; f.first == 0 {
			place[f] = latest
		}
	}
	slices.SortStableFunc(s.files, func(a, b *file) int { return cmp.Compare(place[a], place[b]) })
	limit := ^uint64(0)
	for _, f := range slices.Backward(s.files) {
		if f.limit = limit; f.first > 0 {
			limit = min(limit, f.first)
		}
	}
}

// inspect describes the file that has that number by its name. header is the number that it gives itself, 0 when its
// header cannot be read.
func (s *Spool) inspect(number uint64) (f *file, header uint64, err error) {
	h, err := s.folder.o.FS.Open(s.path(number))
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	info, err := h.Stat()
	if err != nil {
		return nil, 0, err
	}
	f = &file{number: number, end: info.Size(), sealed: true}
	begin := make([]byte, min(info.Size(), frame.HeaderSize))
	if _, err := h.ReadAt(begin, 0); err != nil && err != io.EOF {
		return nil, 0, err
	}
	if told, err := frame.ParseHeader(s.name.ID, begin); err == nil {
		f.first = told.First
		return f, told.Number, nil
	}
	// Without a header, what the first record says must do.
	scanner := frame.NewScanner(h, s.name.ID, 0, f.end, 0)
	for {
		piece, err := scanner.Next()
		switch {
		case err == io.EOF:
			return f, 0, nil
		case err != nil:
			return nil, 0, err
		case !piece.Damaged:
			f.first = piece.Record.Sequence
			return f, 0, nil
		}
	}
}

// Close ends the spool without removing what is in it: another process, or a later start, adopts it. Nothing may use it
// any more, except that closing it again does nothing.
func (s *Spool) Close() error {
	<-s.turn
	defer func() { s.turn <- struct{}{} }()
	if s.closed {
		return nil
	}
	s.closed = true
	err := errors.Join(s.seal(nil), s.reader.close())
	if s.ended == nil {
		s.ended = errClosed
	}
	for _, f := range s.files {
		s.folder.bytes.Add(-f.end)
	}
	s.files = nil
	return errors.Join(err, s.lock.Release())
}

var errClosed = errors.New("the spool is closed")

// Remove ends a spool that is empty, see Empty, and removes its folder.
func (s *Spool) Remove() error {
	fsys, path := s.folder.o.FS, s.folder.path(s.name)
	var errs []error
	if s.lock.Held() {
		// The lock's file goes first, while it is held: whoever waits for it finds it unlinked and knows.
		errs = append(errs, fsys.Remove(filepath.Join(path, lockName)), fsys.Remove(path), fsys.SyncDir(s.folder.o.Root))
	}
	if err := errors.Join(append(errs, s.Close())...); err != nil {
		return fmt.Errorf("remove spool %s: %w", s.name, err)
	}
	return nil
}
