package appendlog

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"queen.internal/pkg/store/log"
)

const (
	// generation is how long a partition's hashes are collected into one set. Two are kept, so a memory that was filled
	// covers at least the default window of a queue, an hour.
	generation = time.Hour
	// maxRemembered bounds the hashes of all partitions: about 20 bytes each.
	maxRemembered = 2_000_000
	// maxFill bounds the rows read at once to fill a memory, and maxUnseen is how many unknown offsets are left to the
	// procedure to look at before they are read.
	maxFill   = 2000
	maxUnseen = 4096
)

// memory remembers recent transaction hashes by partition, so that an append can vouch that it repeats none of them and
// the procedure needs to look only at what this process has not seen. It makes work smaller and decides nothing: a hash
// that may be known is sent without a voucher, and a voucher is checked under the partition's lock.
type memory struct {
	off bool // nothing is taken down, so nothing is known; set before first use

	mu     sync.Mutex
	recent *simplelru.LRU[log.Partition, *recent]
	hashes int // in all of them
}

// recent is what is known of one partition: the hashes of all messages first..last.
type recent struct {
	appends           int // seen since it was begun
	first, base, last int64
	tag               int64
	since             time.Time // commit of first
	old, young        map[uint64]struct{}
	youngFirst        int64
	youngSince        time.Time
}

func newMemory() *memory {
	m := &memory{}
	recents, err := simplelru.NewLRU(cachedPartitions, func(_ log.Partition, r *recent) { m.hashes -= r.size() })
	if err != nil {
		panic(err) // a constant, positive size
	}
	m.recent = recents
	return m
}

// key is what is kept of a hash. Two hashes with one key only cost a look by the procedure.
func key(hash uuid.UUID) uint64 { return binary.LittleEndian.Uint64(hash[:8]) }

func (r *recent) size() int { return len(r.old) + len(r.young) }

func (r *recent) filled() bool { return r.young != nil }

// voucher is what can be said of an append with these hashes to the partition; nil for nothing.
func (m *memory) voucher(p log.Partition, runs []log.Run) *log.Voucher {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, known := m.recent.Get(p)
	if !known || !r.filled() {
		return nil
	}
	for i := range runs {
		for _, hash := range runs[i].Hashes {
			k := key(hash)
			_, old := r.old[k]
			if _, young := r.young[k]; old || young {
				return nil
			}
		}
	}
	return &log.Voucher{First: r.first, Base: r.base, Last: r.last, Tag: r.tag, Since: r.since}
}

// learn takes down an append of this process. after is where to read on when there is something worth reading that this
// process has not seen; otherwise read is false.
func (m *memory) learn(p log.Partition, v *log.Placed, runs []log.Run) (after int64, read bool) {
	if m.off {
		return 0, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r, known := m.recent.Get(p)
	if !known {
		r = &recent{last: -1}
		m.recent.Add(p, r)
	}
	r.appends++
	base := v.Base
	switch {
	case r.followedBy(v):
		for i := range runs {
			m.add(r, log.HashRow{Base: base, End: base + int64(len(runs[i].Hashes)) - 1, CreatedAt: v.CreatedAt, Tag: runs[i].Tag, Hashes: runs[i].Hashes})
			base += int64(len(runs[i].Hashes))
		}
		m.shrink()
		return 0, false
	case base <= r.last: // another append of this process was quicker to come here
		return 0, false
	case r.filled():
		return r.base - 1, base-r.last > maxUnseen
	default:
		return -1, r.appends > 1 // a partition that is pushed to once is not worth it
	}
}

// followedBy says that an append came right behind what is known: behind the same append, not behind another one that took
// its place after a failover.
func (r *recent) followedBy(v *log.Placed) bool {
	if v.Base != r.last+1 || v.Verdict != log.Appended {
		return false
	}
	return v.Base == 0 || r.filled() && v.Previous != nil && *v.Previous == r.tag
}

// fill takes down rows that were read, newest first: above the offset after, or some of the newest of these.
func (m *memory) fill(p log.Partition, rows []log.HashRow) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, known := m.recent.Get(p)
	if !known || len(rows) == 0 || r.filled() && rows[0].End <= r.last {
		return
	}
	next := r.behind(rows)
	if next < 0 {
		// Not the continuation of what is known, so what was read is all there is.
		m.hashes -= r.size()
		next = len(rows) - 1
		*r = recent{appends: r.appends, last: rows[next].Base - 1}
	}
	for i := next; i >= 0; i-- {
		if rows[i].Base != r.last+1 {
			m.recent.Remove(p) // a hole: nothing can be said
			return
		}
		m.add(r, rows[i])
	}
	m.shrink()
}

// behind is the place of the row that follows what is known; -1 when the last one known is not among the rows.
func (r *recent) behind(rows []log.HashRow) int {
	for i := range rows {
		if r.filled() && rows[i].Base == r.base && rows[i].End == r.last && rows[i].Tag == r.tag {
			return i - 1
		}
	}
	return -1
}

// unseen is hash rows that others wrote, or that are from before this process: those above the offset after.
type unseen struct {
	partition log.Partition
	after     int64
	since     time.Time
}

// catchUp reads what this process has not seen. A failure costs nothing but work: the procedure goes on looking there.
func (l *Log) catchUp(ctx context.Context, unknown []unseen) {
	ctx, cancel := context.WithTimeout(ctx, appendDeadline)
	defer cancel()
	for _, u := range unknown {
		rows, err := l.store.ReadHashes(ctx, u.partition.ID, u.after, u.since, maxFill)
		if err != nil {
			return
		}
		l.memory.fill(u.partition, rows)
	}
}

// add takes down the row that follows the last one.
func (m *memory) add(r *recent, row log.HashRow) {
	switch {
	case !r.filled():
		r.first, r.since = row.Base, row.CreatedAt
		r.young, r.youngFirst, r.youngSince = make(map[uint64]struct{}, len(row.Hashes)), row.Base, row.CreatedAt
	case row.CreatedAt.Sub(r.youngSince) >= generation:
		m.hashes -= len(r.old)
		r.old, r.first, r.since = r.young, r.youngFirst, r.youngSince
		r.young, r.youngFirst, r.youngSince = make(map[uint64]struct{}, len(row.Hashes)), row.Base, row.CreatedAt
	}
	before := len(r.young)
	for _, hash := range row.Hashes {
		r.young[key(hash)] = struct{}{}
	}
	m.hashes += len(r.young) - before
	r.base, r.last, r.tag = row.Base, row.End, row.Tag
}

// shrink forgets the partitions that were pushed to least recently.
func (m *memory) shrink() {
	for m.hashes > maxRemembered {
		m.recent.RemoveOldest()
	}
}

// forget drops all of it.
func (m *memory) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recent.Purge()
}

// size is how many hashes are remembered.
func (m *memory) size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hashes
}
