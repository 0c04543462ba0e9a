package appendlog

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/log"
)

// pending is a group that has no result yet. messages shrinks when some turn out to be duplicates; places says where the
// rest stands in the group. The runs belong to one tag and are made once, so that a repeat sends the same bytes.
type pending struct {
	group     int // in the results
	key       Key
	partition log.Partition
	all       []segment.Message // the whole group
	messages  []segment.Message
	sealed    bool
	places    []int
	runs      []log.Run
	evicted   int // how often its partition id was found stale

	tag       int64 // of all runs
	attempted bool  // the tag was sent before, by somebody else
}

func newPending(index int, g *Group) *pending {
	p := &pending{group: index, key: g.Key, all: g.Messages, sealed: g.Sealed}
	p.restart()
	return p
}

// restart makes the whole group open again: what was found to be a duplicate in a queue that is gone has no original in
// the one that follows.
func (p *pending) restart() {
	p.messages, p.places = p.all, make([]int, len(p.all))
	for i := range p.places {
		p.places[i] = i
	}
}

// place gives the group its partition.
func (p *pending) place(partition log.Partition) {
	p.partition = partition
	p.prepare()
}

// fewMessages are encoded sooner than others could be asked to help.
const fewMessages = 64

// prepareAll prepares groups, on as many processors as there are: the database waits meanwhile.
func prepareAll(groups []*pending) {
	messages := 0
	for _, p := range groups {
		messages += len(p.messages)
	}
	workers := min(runtime.GOMAXPROCS(0), len(groups))
	if messages <= fewMessages {
		workers = min(workers, 1)
	}
	var next atomic.Int64
	work := func() {
		for i := next.Add(1) - 1; i < int64(len(groups)); i = next.Add(1) - 1 {
			groups[i].prepare()
		}
	}
	var others sync.WaitGroup
	for range workers - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
}

// prepare encodes the messages for the partition, under a fresh tag unless it goes on with another's attempt.
func (p *pending) prepare() {
	if !p.attempted {
		p.tag = rand.Int64()
	}
	p.runs = p.runs[:0]
	for _, part := range segment.Cut(p.messages) {
		run := log.Run{
			Partition: p.partition, Tag: p.tag, Segment: segment.Encode(part), Hashes: make([]uuid.UUID, len(part)), Sealed: p.sealed,
		}
		for i := range part {
			run.Hashes[i] = queue.TransactionHash(part[i].TransactionID)
		}
		p.runs = append(p.runs, run)
	}
}

// without drops the messages at the given ascending, 1-based positions.
func (p *pending) without(positions []int32) {
	kept, places := make([]segment.Message, 0, len(p.messages)), make([]int, 0, len(p.messages))
	for i := range p.messages {
		if len(positions) > 0 && int(positions[0]) == i+1 {
			positions = positions[1:]
			continue
		}
		kept, places = append(kept, p.messages[i]), append(places, p.places[i])
	}
	p.messages, p.places = kept, places
}
