// Package segments reads what pops have leased. It keeps recent segments in memory, decoded, because several groups read the
// same segment and a pop of a few messages reads a part of one; and pops that read at the same time share a call of the
// database (package rounds).
//
// A segment is known by partition, base offset and tag, and the claim says which ones hold the span that it leased. So memory
// only saves reading: it never tells what is in the log, and what it has from a timeline that was lost in a failover is asked
// for by nobody.
//
// # Concurrency
//
// The package starts no goroutine. A Reader is shared by all requests. The cache has a mutex that is held for a look-up or an
// addition, never while something is read or decoded; the same segment may therefore be read twice at the same time.
package segments

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
	"queen.internal/services/deliver/internal/rounds"
)

// maxShared bounds the segments of one call of the database that several pops share. A segment is up to 1 MiB.
const maxShared = 64

// Options are what a Reader works with.
type Options struct {
	Log      *log.Store
	Bytes    int64         // of decoded segments that are kept; 0 keeps none
	Parallel int           // calls of the database at a time
	Timeout  time.Duration // of one

	Lookups *prometheus.CounterVec // segments by label result: hit, miss
}

// Reader reads segments.
type Reader struct {
	o            Options
	cache        *cache
	rounds       *rounds.Rounds[*call]
	hits, misses prometheus.Counter
}

// New returns a Reader.
func New(o Options) *Reader {
	r := &Reader{o: o, cache: newCache(o.Bytes), hits: o.Lookups.WithLabelValues("hit"), misses: o.Lookups.WithLabelValues("miss")}
	r.rounds = rounds.New(rounds.Options[*call]{
		Parallel: o.Parallel, Bounds: []int{maxShared}, Timeout: o.Timeout, Spare: o.Timeout / 8, Work: r.work,
	})
	return r
}

// Size is how many segments are kept, and their bytes.
func (r *Reader) Size() (segments int, bytes int64) { return r.cache.size() }

// Span is what a claim has leased of one partition.
type Span struct {
	Partition int64
	Segments  []group.SegmentName // by ascending base

	// Found is what Read found of Segments, in their order. What retention has removed is absent.
	Found []*Segment
	// Err says that one of them cannot be decoded.
	Err error
}

// call is one Read on its way.
type call struct {
	missing []log.Span
	read    [][]log.Segment
	err     error
	alone   bool // the server refused the call that this was part of
}

// Read fills in the spans of one pop. Errors have a kind.
func (r *Reader) Read(ctx context.Context, tenant uuid.UUID, spans []Span) error {
	c := &call{}
	wanted := 0
	owners := r.lookUp(spans, c, &wanted)
	if wanted == 0 {
		return nil
	}
	if err := r.rounds.Do(ctx, tenant, 0, wanted, c); err != nil {
		return group.CallError("read segments", err)
	}
	if c.alone {
		c.read, c.err = r.o.Log.Read(ctx, c.missing)
	}
	if c.err != nil {
		return c.err
	}
	for i, owner := range owners {
		owner.take(c.read[i], r.cache)
	}
	for _, owner := range owners {
		owner.Found = slices.DeleteFunc(owner.Found, func(s *Segment) bool { return s == nil })
	}
	return nil
}

// lookUp takes what is in memory, and notes in c what is to be read: runs of neighbours, each for the span that is returned
// for it.
func (r *Reader) lookUp(spans []Span, c *call, wanted *int) (owners []*Span) {
	found := 0
	for i := range spans {
		s := &spans[i]
		s.Found = make([]*Segment, len(s.Segments))
		run := false
		for j, want := range s.Segments {
			if s.Found[j] = r.cache.get(name{s.Partition, want.Base, want.Tag}); s.Found[j] != nil {
				found++
				run = false
				continue
			}
			*wanted++
			if !run {
				run = true
				owners = append(owners, s)
				c.missing = append(c.missing, log.Span{Partition: s.Partition, First: want.Base})
			}
			c.missing[len(c.missing)-1].Last = want.Base // its first message is enough to have it
		}
	}
	r.hits.Add(float64(found))
	r.misses.Add(float64(*wanted))
	return owners
}

// take puts what was read in its place. A segment of another tag is not the one that the claim saw.
func (s *Span) take(read []log.Segment, kept *cache) {
	j := 0
	for i := range read {
		for j < len(s.Segments) && s.Segments[j].Base < read[i].Base {
			j++
		}
		if j == len(s.Segments) || s.Segments[j] != (group.SegmentName{Base: read[i].Base, Tag: read[i].Tag}) {
			continue
		}
		decoded, err := decode(&read[i])
		if err != nil {
			s.Err = fmt.Errorf("decode segment %d of partition %d: %w", read[i].Base, s.Partition, err)
			return
		}
		kept.add(name{s.Partition, read[i].Base, read[i].Tag}, decoded)
		s.Found[j] = decoded
	}
}

// work reads for the calls of one round.
func (r *Reader) work(ctx context.Context, calls []*call) {
	var spans []log.Span
	for _, c := range calls {
		spans = append(spans, c.missing...)
	}
	read, err := r.o.Log.Read(ctx, spans)
	if err != nil {
		alone := len(calls) > 1 && group.Refused(err)
		for _, c := range calls {
			c.err, c.alone = err, alone
		}
		return
	}
	for _, c := range calls {
		n := len(c.missing)
		c.read, read = read[:n:n], read[n:]
	}
}
