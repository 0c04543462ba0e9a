package spool

import (
	"errors"
	"fmt"
	"io"

	"queen.internal/services/ingest/internal/spool/frame"
)

// Survey shows visit every record that Next will return, without reading on for it, of a spool that was adopted and not
// read yet. What is damaged it passes over.
func (s *Spool) Survey(visit func(*Item)) error {
	last := uint64(0)
	for _, f := range s.files {
		if err := s.surveyFile(f, &last, visit); err != nil {
			return fmt.Errorf("survey spool file %d: %w", f.number, err)
		}
	}
	return nil
}

func (s *Spool) surveyFile(f *file, last *uint64, visit func(*Item)) (err error) {
	h, err := s.folder.o.FS.Open(s.path(f.number))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	scanner := frame.NewScanner(h, s.name.ID, min(frame.HeaderSize, f.end), f.end, min(*last, f.first-min(f.first, 1)))
	for {
		piece, err := scanner.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case piece.Damaged || piece.Record.Sequence >= f.limit:
		default:
			*last = max(*last, piece.Record.Sequence)
			visit(&Item{Record: piece.Record, file: f, start: piece.Start, end: piece.End})
		}
	}
}
