package spool

import (
	"errors"
	"fmt"
	"io"

	"queen.internal/services/ingest/internal/spool/disk"
	"queen.internal/services/ingest/internal/spool/frame"
)

// reader is where Next stands. It belongs to the one goroutine that reads.
type reader struct {
	file    *file // nil before the first and after the last
	handle  disk.File
	scanner *frame.Scanner
	expect  uint64 // the sequence that follows the last record; 0 before the first
	skipped bool   // what lies before the next record was set aside, so that gap is accounted for
	damage  Damage
}

// Damage counts what a reader met that was no record.
type Damage struct {
	SetAside int // pieces of damaged bytes
	Torn     int // ends that were cut short
	Missing  int // records that ought to be there, by their sequences, and are not
}

// Item is a record that was read. It is settled once.
type Item struct {
	frame.Record
	file       *file
	start, end int64
}

// Next returns the next record that was answered for, io.EOF when there is none at the moment, or why the disk does not
// give it; the same call can succeed later.
func (s *Spool) Next() (*Item, error) {
	for {
		if s.reader.file == nil {
			if err := s.advance(); err != nil {
				return nil, err
			}
		}
		f := s.reader.file
		s.mu.Lock()
		end, sealed := f.end, f.sealed
		s.mu.Unlock()
		s.reader.scanner.Extend(end)
		piece, err := s.reader.scanner.Next()
		switch {
		case err == io.EOF && !sealed:
			return nil, io.EOF
		case err == io.EOF:
			if err := s.finish(f); err != nil {
				return nil, err
			}
		case err != nil:
			return nil, fmt.Errorf("read spool file %d: %w", f.number, err)
		case piece.Damaged:
			if err := s.damaged(f, piece); err != nil {
				return nil, err
			}
		case piece.Record.Sequence >= f.limit: // never answered for
		default:
			s.count(piece.Record.Sequence)
			f.pending++
			return &Item{Record: piece.Record, file: f, start: piece.Start, end: piece.End}, nil
		}
	}
}

// advance opens the first file that was not read; io.EOF when there is none.
func (s *Spool) advance() error {
	s.mu.Lock()
	var f *file
	for _, candidate := range s.files {
		if !candidate.read {
			f = candidate
			break
		}
	}
	s.mu.Unlock()
	if f == nil {
		return io.EOF
	}
	h, err := s.folder.o.FS.Open(s.path(f.number))
	if err != nil {
		return fmt.Errorf("open spool file %d: %w", f.number, err)
	}
	begin := make([]byte, frame.HeaderSize)
	n, err := h.ReadAt(begin, 0)
	if err != nil && err != io.EOF {
		return errors.Join(fmt.Errorf("read spool file %d: %w", f.number, err), h.Close())
	}
	at := int64(frame.HeaderSize)
	if _, err := frame.ParseHeader(s.name.ID, begin[:n]); err != nil {
		at = 0 // what stands there instead is set aside like other damage
	}
	last := uint64(0)
	if s.reader.expect > 0 {
		last = s.reader.expect - 1
	} else {
		s.reader.expect = f.first
	}
	s.reader.file, s.reader.handle = f, h
	s.reader.scanner = frame.NewScanner(h, s.name.ID, at, f.end, min(last, f.first-min(f.first, 1)))
	return nil
}

// finish leaves a file that was read to its end.
func (s *Spool) finish(f *file) error {
	err := s.reader.close()
	f.read = true
	return err
}

func (r *reader) close() error {
	if r.handle == nil {
		return nil
	}
	err := r.handle.Close()
	r.file, r.handle, r.scanner = nil, nil, nil
	return err
}

// count accounts for the sequences between the last record and this one.
func (s *Spool) count(sequence uint64) {
	r := &s.reader
	if sequence > r.expect && !r.skipped {
		missing := sequence - r.expect
		r.damage.Missing += int(missing)
		s.folder.o.Logger.Error("spooled records are missing", "spool", s.name.String(), "first", r.expect, "count", missing)
	}
	r.skipped = false
	r.expect = max(r.expect, sequence+1)
}

// damaged keeps bytes that are no record and goes on behind them.
func (s *Spool) damaged(f *file, piece frame.Piece) error {
	raw := make([]byte, piece.End-piece.Start)
	if _, err := s.reader.handle.ReadAt(raw, piece.Start); err != nil {
		return fmt.Errorf("read what is damaged in spool file %d: %w", f.number, err)
	}
	// Less than a header is a file that could not be begun: nothing in it was ever answered for.
	torn := s.adopted && (piece.Torn && s.isLast(f) || piece.End < frame.HeaderSize)
	reason := "damaged"
	if torn {
		reason = "torn"
	}
	if err := s.folder.keep(fmt.Sprintf("%s-%d-%d.%s", s.name, f.number, piece.Start, reason), raw); err != nil {
		s.reader.scanner = frame.NewScanner(s.reader.handle, s.name.ID, piece.Start, f.end, s.reader.expect-1)
		return err
	}
	if torn {
		s.reader.damage.Torn++
		s.folder.o.Logger.Warn("the end of a spool was cut short and is cut off", "spool", s.name.String(), "file", f.number, "offset", piece.Start, "bytes", len(raw))
		return nil
	}
	s.reader.damage.SetAside++
	s.reader.skipped = true
	s.folder.o.Logger.Error("damaged bytes of a spool are set aside", "spool", s.name.String(), "file", f.number, "offset", piece.Start, "bytes", len(raw))
	return nil
}

func (s *Spool) isLast(f *file) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[len(s.files)-1] == f
}

// Damage is what was met so far.
func (s *Spool) Damage() Damage { return s.reader.damage }

// Settle says that the record of an item need not be kept any more.
func (s *Spool) Settle(item *Item) { item.file.pending-- }

// SetAside keeps the bytes of an item's record under the root, for a person to look at, and settles it. It is safe to repeat.
func (s *Spool) SetAside(item *Item, reason string) error {
	header := frame.AppendHeader(nil, frame.Header{Spool: s.name.ID, Number: item.file.number, First: item.Sequence})
	raw := frame.Append(header, s.name.ID, item.Record)
	if err := s.folder.keep(fmt.Sprintf("%s-%d.%s", s.name, item.Sequence, reason), raw); err != nil {
		return err
	}
	s.Settle(item)
	return nil
}

// Reclaim removes the files at the beginning whose records are all settled, the active one too. It returns whether the
// spool is empty now.
func (s *Spool) Reclaim() (empty bool, err error) {
	<-s.turn
	defer func() { s.turn <- struct{}{} }()
	for {
		s.mu.Lock()
		if len(s.files) == 0 {
			s.mu.Unlock()
			return true, nil
		}
		f := s.files[0]
		end, sealed := f.end, f.sealed
		s.mu.Unlock()
		switch {
		case f.pending > 0:
			return false, nil
		case sealed && !f.read, !sealed && (s.reader.file != f || !s.reader.scanner.At(end)):
			return false, nil
		case !sealed:
			if err := errors.Join(s.seal(nil), s.finish(f)); err != nil {
				s.folder.o.Logger.Warn("close a spool file", "spool", s.name.String(), "file", f.number, "err", err)
			}
		}
		if err := s.drop(f); err != nil {
			return false, err
		}
	}
}

// drop removes a file of which nothing is needed.
func (s *Spool) drop(f *file) error {
	if s.lock.Held() { // otherwise what lies there now is somebody else's
		if err := s.folder.o.FS.Remove(s.path(f.number)); err != nil {
			return fmt.Errorf("remove spool file %d: %w", f.number, err)
		}
		if err := s.folder.o.FS.SyncDir(s.folder.path(s.name)); err != nil {
			return fmt.Errorf("remove spool file %d: %w", f.number, err)
		}
	}
	s.mu.Lock()
	s.files = s.files[1:]
	s.mu.Unlock()
	s.folder.bytes.Add(-f.end)
	return nil
}
