package log

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/segment"
)

// Span is the offsets First..Last, both inclusive, of one partition.
type Span struct{ Partition, First, Last int64 }

// Segment is one stored segment. Its messages have the offsets Base..End.
type Segment struct {
	Base, End int64
	CreatedAt time.Time
	Tag       int64 // of the append that wrote it; with the partition and Base it names these bytes for ever
	Codec     int16
	RawBytes  int
	Blob      []byte
}

// Messages decodes the segment; element i has the offset Base+i.
func (s *Segment) Messages() ([]segment.Message, error) {
	return segment.Decode(s.Codec, s.RawBytes, int(s.End-s.Base+1), s.Blob)
}

const readSQL = `SELECT place, base_offset, end_offset, created_at, tag, codec, raw_bytes, payload FROM queen.read_segments($1, $2, $3)`

// Read gives, for each span, the segments that hold its offsets, in order; the first and the last may reach beyond it.
// What retention has removed is absent. Errors have a kind.
func (s *Store) Read(ctx context.Context, spans []Span) ([][]Segment, error) {
	partitions, firsts, lasts := make([]int64, len(spans)), make([]int64, len(spans)), make([]int64, len(spans))
	for i, span := range spans {
		partitions[i], firsts[i], lasts[i] = span.Partition, span.First, span.Last
	}
	rows, err := s.pool.Query(ctx, readSQL, partitions, firsts, lasts)
	if err != nil {
		return nil, pg.Wrap("read segments", err)
	}
	found := make([][]Segment, len(spans))
	var place int
	var g Segment
	if _, err = pgx.ForEachRow(rows, []any{&place, &g.Base, &g.End, &g.CreatedAt, &g.Tag, &g.Codec, &g.RawBytes, &g.Blob}, func() error {
		found[place-1] = append(found[place-1], g)
		g.Blob = nil // the next row must not be read into this one's memory
		return nil
	}); err != nil {
		return nil, pg.Wrap("read segments", err)
	}
	return found, nil
}
