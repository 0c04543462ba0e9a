package mesh

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"queen.internal/pkg/queue"
)

// frameVersion is the first byte of every message. A reader ignores and counts what it does not know.
const frameVersion = 1

// The kinds of messages, the second byte.
const (
	kindHints  = 'h'
	kindConfig = 'c'
	kindBeat   = 'b'
	kindAsk    = 'a' // "beat now": somebody listens to something new
)

// maxFrame is what one message of hints grows to before the next begins. It is far below the node's limit of a message.
const maxFrame = 32 << 10

var errFrame = errors.New("the message is not one of ours")

// header begins every message: version, kind, the publisher's boot id, and for numbered ones bucket and sequence.
type header struct {
	kind   byte
	boot   uint64
	bucket int
	seq    uint64
}

func appendHeader(b []byte, h header) []byte {
	b = append(b, frameVersion, h.kind)
	b = binary.BigEndian.AppendUint64(b, h.boot)
	if h.kind == kindHints || h.kind == kindConfig {
		b = binary.AppendUvarint(b, uint64(h.bucket))
		b = binary.AppendUvarint(b, h.seq)
	}
	return b
}

// reader takes a message apart. After a fault everything it gives is zero.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.rest)) {
		r.bad = true
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if r.bad || size <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) varint() int64 {
	n, size := binary.Varint(r.rest)
	if r.bad || size <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// name is a queue or group name as the rest of the system allows them.
func (r *reader) name() string {
	size := r.uvarint()
	if size > queue.MaxNameBytes {
		r.bad = true
	}
	taken := r.take(size)
	if !utf8.Valid(taken) {
		r.bad = true
	}
	return string(taken)
}

func (r *reader) news() News {
	b := r.take(1)
	if len(b) == 0 || b[0] >= byte(newsEnd) {
		r.bad = true
		return Ready
	}
	return News(b[0])
}

// maxLease is far above what a lease may be.
const maxLease = 10 * 365 * 24 * time.Hour

func (r *reader) millis() time.Duration {
	n := r.uvarint()
	if n > uint64(maxLease.Milliseconds()) {
		r.bad = true
	}
	return time.Duration(n) * time.Millisecond
}

func (r *reader) tenant() (id uuid.UUID) {
	copy(id[:], r.take(uint64(len(id))))
	return id
}

// readHeader leaves the body in the reader.
func readHeader(data []byte) (header, *reader, error) {
	r := &reader{rest: data}
	start := r.take(10)
	if start == nil || start[0] != frameVersion {
		return header{}, nil, errFrame
	}
	h := header{kind: start[1], boot: binary.BigEndian.Uint64(start[2:])}
	switch h.kind {
	case kindHints, kindConfig:
		bucket := r.uvarint()
		h.seq = r.uvarint()
		if r.bad || bucket >= sequences || (h.kind == kindConfig) != (bucket == configBucket) {
			return header{}, nil, errFrame
		}
		h.bucket = int(bucket)
	case kindBeat, kindAsk:
	default:
		return header{}, nil, errFrame
	}
	return h, r, nil
}

// appendCursors adds a queue's hints: tenant, queue, their number, and for each partition, offset, group, news and the
// milliseconds of a lease. It takes from cursors until the message is full.
func appendCursors(b []byte, key queueKey, cursors map[cursorKey]said) []byte {
	b = append(b, key.tenant[:]...)
	b = appendName(b, key.queue)
	room := max(maxFrame-len(b), 1)
	var body []byte
	n := uint64(0)
	for cursor, said := range cursors {
		body = binary.AppendVarint(body, cursor.partition)
		body = binary.AppendVarint(body, said.offset)
		body = appendName(body, cursor.group)
		body = append(body, byte(said.news))
		body = binary.AppendUvarint(body, uint64(said.lease.Milliseconds()))
		delete(cursors, cursor)
		if n++; len(body) >= room {
			break
		}
	}
	return append(binary.AppendUvarint(b, n), body...)
}

func appendName(b []byte, name string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(name))), name...)
}

// readHints is the body of a message of hints, appended to hints.
func readHints(r *reader, bucket int, hints []Hint) ([]Hint, error) {
	for len(r.rest) > 0 && !r.bad {
		tenant, name := r.tenant(), r.name()
		n := r.uvarint()
		if r.bad || n == 0 || n > uint64(len(r.rest)) || bucketOf(tenant, name) != bucket {
			return nil, errFrame
		}
		for range n {
			hints = append(hints, Hint{
				Tenant: tenant, Queue: name, Partition: r.varint(), Offset: r.varint(), Group: r.name(), News: r.news(), Lease: r.millis(),
			})
		}
	}
	if r.bad {
		return nil, errFrame
	}
	return hints, nil
}

// Config says that a queue's options may have changed, or that the queue is gone. Whoever caches them forgets them.
type Config struct {
	Tenant  uuid.UUID
	Queue   string
	Deleted bool
}

func appendConfig(b []byte, key queueKey, deleted bool) []byte {
	b = append(b, key.tenant[:]...)
	b = appendName(b, key.queue)
	if deleted {
		return append(b, 1)
	}
	return append(b, 0)
}

func readConfigs(r *reader) (configs []Config, err error) {
	for len(r.rest) > 0 && !r.bad {
		c := Config{Tenant: r.tenant(), Queue: r.name()}
		flag := r.take(1)
		c.Deleted = flag != nil && flag[0] == 1
		configs = append(configs, c)
	}
	if r.bad {
		return nil, errFrame
	}
	return configs, nil
}

// beat is what a process says of itself every heartbeat. New facts are new optional fields.
type beat struct {
	ID       string   `json:"id"`
	Role     string   `json:"role"`
	Address  string   `json:"address"`
	Version  string   `json:"version"`
	Schema   string   `json:"schema"`
	Pool     int      `json:"pool"`
	Timeline int64    `json:"timeline"`
	Started  int64    `json:"started"`            // ms since 1970, tells which of two boots of one id is the later
	Draining bool     `json:"draining,omitempty"` // was told to stop
	Leaving  bool     `json:"leaving,omitempty"`  // stops now
	Sequence []byte   `json:"sequence"`           // last number of each sequence, as varints
	Watches  []byte   `json:"watches"`            // bit for each bucket
	Switches []Switch `json:"switches,omitempty"`

	sequence [sequences]uint64
	watches  bucketSet
}

func appendBeat(b []byte, beat *beat) ([]byte, error) {
	beat.Sequence = beat.Sequence[:0]
	for _, seq := range beat.sequence {
		beat.Sequence = binary.AppendUvarint(beat.Sequence, seq)
	}
	beat.Watches = beat.Watches[:0]
	for _, word := range beat.watches {
		beat.Watches = binary.BigEndian.AppendUint64(beat.Watches, word)
	}
	body, err := json.Marshal(beat)
	if err != nil {
		return nil, fmt.Errorf("encode a heartbeat: %w", err)
	}
	return append(b, body...), nil
}

func readBeat(r *reader) (*beat, error) {
	b := &beat{}
	if err := json.Unmarshal(r.rest, b); err != nil || b.ID == "" || len(b.Watches) != 8*len(b.watches) {
		return nil, errFrame
	}
	sequence := &reader{rest: b.Sequence}
	for i := range b.sequence {
		b.sequence[i] = sequence.uvarint()
	}
	for i := range b.watches {
		b.watches[i] = binary.BigEndian.Uint64(b.Watches[8*i:])
	}
	if sequence.bad || len(sequence.rest) > 0 {
		return nil, errFrame
	}
	return b, nil
}
