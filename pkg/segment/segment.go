package segment

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// Bounds of a segment. A single message above MaxRawBytes has a segment of its own.
const (
	MaxMessages = 1000
	MaxRawBytes = 1 << 20
)

// Message is one message as it is stored. Payload is JSON text, verbatim.
type Message struct {
	ID            uuid.UUID
	TransactionID string
	TraceID       *uuid.UUID
	ProducerSub   string // empty: none
	Payload       []byte
}

// flags of a frame.
const (
	hasTransactionID = 1 << iota
	hasTraceID
	hasProducer
	knownFlags = hasTransactionID | hasTraceID | hasProducer
)

// ErrCorrupt means that stored bytes are not a segment of a version this build reads.
var ErrCorrupt = errors.New("corrupt segment")

// Size is about how many bytes m takes in a segment before compression; never less than it really takes.
func (m *Message) Size() int {
	return 1 + 16 + 3*binary.MaxVarintLen32 + 16 + len(m.TransactionID) + len(m.ProducerSub) + len(m.Payload)
}

func appendFrame(dst []byte, m *Message) []byte {
	var flags byte
	ownTransactionID := m.TransactionID != m.ID.String()
	if ownTransactionID {
		flags |= hasTransactionID
	}
	if m.TraceID != nil {
		flags |= hasTraceID
	}
	if m.ProducerSub != "" {
		flags |= hasProducer
	}
	dst = append(dst, flags)
	dst = append(dst, m.ID[:]...)
	if ownTransactionID {
		dst = appendText(dst, m.TransactionID)
	}
	if m.TraceID != nil {
		dst = append(dst, m.TraceID[:]...)
	}
	if m.ProducerSub != "" {
		dst = appendText(dst, m.ProducerSub)
	}
	return appendText(dst, m.Payload)
}

func appendText[T ~string | ~[]byte](dst []byte, text T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(text)))
	return append(dst, text...)
}

// frameReader walks the frames of one segment; the first error sticks.
type frameReader struct {
	rest []byte
	err  error
}

func (r *frameReader) take(n uint64) []byte {
	if r.err != nil || n > uint64(len(r.rest)) {
		if r.err == nil {
			r.err = fmt.Errorf("%w: a frame ends early", ErrCorrupt)
		}
		return nil
	}
	taken := r.rest[:n:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *frameReader) text() []byte {
	n, width := binary.Uvarint(r.rest)
	if width <= 0 {
		n, width = uint64(len(r.rest))+1, 0 // take reports it
	}
	r.rest = r.rest[width:]
	return r.take(n)
}

func (r *frameReader) id() (id uuid.UUID) {
	copy(id[:], r.take(16))
	return id
}

func (r *frameReader) message() Message {
	var m Message
	var flags byte
	if head := r.take(1); len(head) == 1 {
		flags = head[0]
	}
	if flags&^knownFlags != 0 {
		r.err = fmt.Errorf("%w: unknown frame flags %#x", ErrCorrupt, flags)
		return m
	}
	m.ID = r.id()
	if flags&hasTransactionID != 0 {
		m.TransactionID = string(r.text())
	} else {
		m.TransactionID = m.ID.String()
	}
	if flags&hasTraceID != 0 {
		id := r.id()
		m.TraceID = &id
	}
	if flags&hasProducer != 0 {
		m.ProducerSub = string(r.text())
	}
	m.Payload = r.text()
	return m
}
