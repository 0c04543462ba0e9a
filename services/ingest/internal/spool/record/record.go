// Package record is what a spool's records hold: the messages of one partition that were to be committed together, as the
// append log takes them, in the form of stored segments. It knows nothing of files.
//
// Version 1 is, with integers in little-endian order and lengths as unsigned varints,
//
//	flags (1 byte) | time (8) | tag (8) | tenant (16) | queue | partition | number of segments | segments
//
// where a segment is its number of messages, its size before compression, its codec, and its bytes. With a key set, all of
// it is sealed as a whole, and bound to its spool, so a disk tells nothing of queues and payloads.
package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/seal"
	"queen.internal/pkg/segment"
	"queen.internal/services/ingest/internal/spool"
)

// Version is what this build writes, and the highest that it reads.
const Version = 1

// flagSealed marks, outside of the body, a body that is sealed.
const flagSealed = 1

// flags inside of the body.
const (
	payloadsSealed = 1 << iota
	attempted
	knownFlags = payloadsSealed | attempted
)

// Record is one group of messages that waits for its commit.
type Record struct {
	appendlog.Group
	At time.Time // when it was spooled, by this machine's clock, in milliseconds
	// Tag is that of an append which may have committed the messages, all of them; Attempted says that there was one.
	Tag       int64
	Attempted bool
}

// Errors of Decode. Each means that the bytes should be kept for somebody who can read them.
var (
	ErrVersion = errors.New("a record of a version that is not known")
	ErrKey     = errors.New("a record that none of the keys opens")
	ErrForm    = errors.New("a record that cannot be read")
)

// Encode makes the entry of r in the spool with that id. With a key it is sealed.
func Encode(r *Record, keys *seal.Keys, id uuid.UUID) spool.Entry {
	var flags byte
	if r.Sealed {
		flags |= payloadsSealed
	}
	if r.Attempted {
		flags |= attempted
	}
	body := append(make([]byte, 0, 128), flags)
	body = binary.LittleEndian.AppendUint64(body, uint64(r.At.UnixMilli()))
	body = binary.LittleEndian.AppendUint64(body, uint64(r.Tag))
	body = append(body, r.Key.Tenant[:]...)
	body = appendText(body, r.Key.Queue)
	body = appendText(body, r.Key.Partition)
	parts := segment.Cut(r.Messages)
	body = binary.AppendUvarint(body, uint64(len(parts)))
	for _, part := range parts {
		e := segment.Encode(part)
		body = binary.AppendUvarint(body, uint64(e.Count))
		body = binary.AppendUvarint(body, uint64(e.RawBytes))
		body = binary.AppendUvarint(body, uint64(e.Codec))
		body = appendText(body, e.Blob)
	}
	entry := spool.Entry{Version: Version, Body: body}
	if keys.CanSeal() {
		entry.Flags, entry.Body = flagSealed, keys.SealBytes(body, id[:])
	}
	return entry
}

func appendText[T ~string | ~[]byte](dst []byte, text T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(text)))
	return append(dst, text...)
}

// headSize is the length of what precedes the names in a body, in bytes.
const headSize = 1 + 8 + 8 + 16

// Decode reads the record of an item of the spool with that id. Errors are ErrVersion, ErrKey or ErrForm.
func Decode(item *spool.Item, keys *seal.Keys, id uuid.UUID) (*Record, error) {
	body, err := open(item, keys, id)
	if err != nil {
		return nil, err
	}
	return parse(body)
}

// open is the body of an item, in a form that this build reads.
func open(item *spool.Item, keys *seal.Keys, id uuid.UUID) ([]byte, error) {
	if item.Version == 0 || item.Version > Version || item.Flags&^flagSealed != 0 {
		return nil, fmt.Errorf("%w: version %d, flags %#x", ErrVersion, item.Version, item.Flags)
	}
	body := item.Body
	if item.Flags&flagSealed != 0 {
		var ok bool
		if body, ok = keys.OpenBytes(body, id[:]); !ok {
			return nil, ErrKey
		}
	}
	if len(body) > 0 && body[0]&^knownFlags != 0 {
		return nil, fmt.Errorf("%w: flags %#x in its body", ErrVersion, body[0])
	}
	return body, nil
}

func parse(body []byte) (*Record, error) {
	r := reader{rest: body}
	head := r.take(headSize)
	if r.failed {
		return nil, ErrForm
	}
	out := &Record{
		At:  time.UnixMilli(int64(binary.LittleEndian.Uint64(head[1:]))),
		Tag: int64(binary.LittleEndian.Uint64(head[9:])), Attempted: head[0]&attempted != 0,
	}
	out.Sealed = head[0]&payloadsSealed != 0
	copy(out.Key.Tenant[:], head[17:])
	out.Key.Queue, out.Key.Partition = string(r.text()), string(r.text())
	for range r.number() {
		count, raw, codec := r.number(), r.number(), r.number()
		blob := r.text()
		if r.failed || codec > 1<<15-1 || raw > 1<<31-1 || count > segment.MaxMessages {
			return nil, ErrForm
		}
		messages, err := segment.Decode(int16(codec), int(raw), int(count), blob)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrForm, err)
		}
		out.Messages = append(out.Messages, messages...)
	}
	if r.failed || len(r.rest) > 0 || len(out.Messages) == 0 {
		return nil, ErrForm
	}
	return out, nil
}

// reader takes a body apart; once it failed it gives nothing.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) take(n uint64) []byte {
	if r.failed || n > uint64(len(r.rest)) {
		r.failed = true
		return nil
	}
	taken := r.rest[:n:n]
	r.rest = r.rest[n:]
	return taken
}

// number is 0 once the reader failed.
func (r *reader) number() uint64 {
	n, width := binary.Uvarint(r.rest)
	if r.failed || width <= 0 {
		r.failed = true
		return 0
	}
	r.rest = r.rest[width:]
	return n
}

func (r *reader) text() []byte { return r.take(r.number()) }

// KeyOf reads of an item's record only where it belongs and how many messages it has.
func KeyOf(item *spool.Item, keys *seal.Keys, id uuid.UUID) (key appendlog.Key, messages int, err error) {
	body, err := open(item, keys, id)
	if err != nil {
		return key, 0, err
	}
	r := reader{rest: body}
	head := r.take(headSize)
	if r.failed {
		return key, 0, ErrForm
	}
	copy(key.Tenant[:], head[17:])
	key.Queue, key.Partition = string(r.text()), string(r.text())
	for range r.number() {
		messages += int(r.number())
		r.number()
		r.number()
		r.text()
		if r.failed {
			break
		}
	}
	if r.failed {
		return key, 0, ErrForm
	}
	return key, messages, nil
}
