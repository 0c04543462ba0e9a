package frame

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/google/uuid"
)

// window is how many bytes a Scanner reads ahead, and a step by which its buffer grows for a longer record.
const window = 256 << 10

// Scanner reads the records of one file from an offset to an end. It buffers what it read; bodies stay valid, because
// every window has memory of its own.
type Scanner struct {
	spool   uuid.UUID
	from    io.ReaderAt
	at, end int64
	last    uint64 // highest sequence so far

	buf   []byte // what was read and not yet passed
	after int64  // where buf ends in the file
}

// NewScanner reads from offset at, which is behind the header, up to end, records with sequences above last.
func NewScanner(from io.ReaderAt, spool uuid.UUID, at, end int64, last uint64) *Scanner {
	return &Scanner{spool: spool, from: from, at: at, end: end, last: last, after: at}
}

// Extend makes the scanner go on up to end, which has grown.
func (s *Scanner) Extend(end int64) { s.end = max(s.end, end) }

// Piece is what stands next in a file: a record, or bytes that are none.
type Piece struct {
	Start, End int64
	Record     Record // when Damaged is false
	Damaged    bool
	Torn       bool // damaged, and cut short by the end of the file
}

// Next returns the next piece, io.EOF at the end, or why the file cannot be read; in that case the same call can succeed
// later.
func (s *Scanner) Next() (Piece, error) {
	if s.at >= s.end {
		return Piece{}, io.EOF
	}
	start := s.at
	if r, size, ok, err := s.record(0); err != nil {
		return Piece{}, err
	} else if ok {
		s.pass(size)
		s.last = r.Sequence
		return Piece{Start: start, End: s.at, Record: r}, nil
	} else {
		torn := s.short(size)
		found, err := s.resume()
		if err != nil {
			return Piece{}, err
		}
		s.pass(found)
		return Piece{Start: start, End: s.at, Damaged: true, Torn: torn && s.at == s.end}, nil
	}
}

// short says that what begins here would end behind the file: there is no whole header, or one that promises more.
func (s *Scanner) short(size int) bool {
	return size == 0 && s.end-s.at < recordHeader || s.at+int64(size) > s.end
}

// record is the record that begins skip bytes from here, if one does.
func (s *Scanner) record(skip int) (r Record, size int, ok bool, err error) {
	if err = s.fill(skip + recordHeader); err != nil || len(s.buf) < skip+recordHeader {
		return Record{}, 0, false, err
	}
	head := s.buf[skip:]
	if binary.LittleEndian.Uint32(head) != mark(s.spool) || binary.LittleEndian.Uint64(head[12:]) <= s.last {
		return Record{}, 0, false, nil
	}
	size = recordHeader + int(binary.LittleEndian.Uint32(head[4:]))
	if s.at+int64(skip)+int64(size) > s.end {
		return Record{}, size, false, nil
	}
	if err = s.fill(skip + size); err != nil {
		return Record{}, size, false, err
	}
	r, _, ok = parse(s.spool, s.buf[skip:])
	return r, size, ok, nil
}

// resume is how far from here the next record begins; when there is none, how far the end is.
func (s *Scanner) resume() (int, error) {
	sign := binary.LittleEndian.AppendUint32(nil, mark(s.spool))
	for skip := 1; ; {
		if err := s.fill(skip + window); err != nil {
			return 0, err
		}
		i := -1
		if skip < len(s.buf) {
			i = bytes.Index(s.buf[skip:], sign)
		}
		if i < 0 {
			if s.after >= s.end {
				return int(s.end - s.at), nil
			}
			skip = max(skip, len(s.buf)-len(sign)+1) // one may begin in the last bytes that are here
			continue
		}
		skip += i
		if _, _, ok, err := s.record(skip); err != nil || ok {
			return skip, err
		}
		skip++
	}
}

// fill sees to it that n bytes from here are in the buffer, or all that the file has.
func (s *Scanner) fill(n int) error {
	if n <= len(s.buf) || s.after >= s.end {
		return nil
	}
	size := min(s.end-s.at, int64(max(n, window)))
	grown := make([]byte, size)
	have := copy(grown, s.buf)
	got, err := s.from.ReadAt(grown[have:], s.after)
	if have+got < len(grown) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF // shorter than it was said to be
		}
		return err
	}
	s.buf, s.after = grown, s.at+size
	return nil
}

func (s *Scanner) pass(n int) {
	s.at += int64(n)
	if n >= len(s.buf) {
		s.buf = nil
		s.after = s.at
		return
	}
	s.buf = s.buf[n:]
}

// At says whether the scanner has passed everything up to that offset.
func (s *Scanner) At(offset int64) bool { return s.at >= offset }
