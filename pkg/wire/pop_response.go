package wire

import (
	"strconv"
	"time"

	"github.com/google/uuid"
)

// PopMessage is one message as a pop delivers it.
type PopMessage struct {
	ID            uuid.UUID
	TransactionID string
	TraceID       *uuid.UUID
	ProducerSub   string // empty renders as null
	Payload       []byte // the stored bytes, spliced in as they are; empty renders as null
	CreatedAt     time.Time
}

// PopResponse assembles the body of a pop that delivered something. Begin, then for each partition Partition and its
// messages by Message, then Bytes. It keeps its buffer from one Begin to the next, so it can be pooled; it is not safe
// for concurrent use.
type PopResponse struct {
	body  []byte
	queue string
	lease string // 36 characters, or empty with autoAck
	group []byte // the JSON of the group's name

	partitionID   uuid.UUID
	partitionName []byte // the JSON of it
	tail          []byte // what every message of the partition ends with
	fresh         bool   // no message of the partition yet

	stamp     []byte // rendered createdAt of the message before
	stampTime time.Time

	messages   int
	partitions int
}

// Begin drops what was there and starts a body. queue is empty for a discovery, lease is uuid.Nil with autoAck.
func (r *PopResponse) Begin(queue, group string, lease uuid.UUID) {
	r.body = r.body[:0]
	r.queue, r.lease = queue, ""
	if lease != uuid.Nil {
		r.lease = lease.String()
	}
	r.group = AppendString(r.group[:0], group)
	r.stamp, r.stampTime = r.stamp[:0], time.Time{}
	r.messages, r.partitions = 0, 0
	r.fresh = false
}

// Partition says of which partition the next messages are, and for which time their span is delivered (1 the first).
func (r *PopResponse) Partition(id uuid.UUID, name string, attempt int) {
	r.partitionID, r.fresh = id, true
	r.partitionName = AppendString(r.partitionName[:0], name)
	t := append(r.tail[:0], `,"partitionId":"`...)
	t = appendUUID(t, id)
	t = append(t, `","partition":`...)
	t = append(t, r.partitionName...)
	t = append(t, `,"leaseId":"`...)
	t = append(t, r.lease...)
	t = append(t, `","consumerGroup":`...)
	t = append(t, r.group...)
	t = append(t, `,"deliveryAttempt":`...)
	t = strconv.AppendInt(t, int64(attempt), 10)
	r.tail = append(t, '}')
}

// Message adds one message of the current partition. m.Payload must be valid JSON or empty; it is copied.
func (r *PopResponse) Message(m *PopMessage) {
	if r.fresh {
		r.fresh = false
		r.partitions++
	}
	if r.messages == 0 {
		r.head()
	} else {
		r.body = append(r.body, ',')
	}
	r.messages++

	b := append(r.body, `{"id":"`...)
	b = appendUUID(b, m.ID)
	b = append(b, `","transactionId":`...)
	b = AppendString(b, m.TransactionID)
	b = append(b, `,"traceId":`...)
	if m.TraceID == nil {
		b = append(b, "null"...)
	} else {
		b = append(b, '"')
		b = appendUUID(b, *m.TraceID)
		b = append(b, '"')
	}
	b = append(b, `,"data":`...)
	if len(m.Payload) == 0 {
		b = append(b, "null"...)
	} else {
		b = append(b, m.Payload...)
	}
	b = append(b, `,"producerSub":`...)
	if m.ProducerSub == "" {
		b = append(b, "null"...)
	} else {
		b = AppendString(b, m.ProducerSub)
	}
	b = append(b, `,"createdAt":`...)
	b = append(b, r.createdAt(m.CreatedAt)...)
	r.body = append(b, r.tail...)
}

// head opens the body. It waits for the first message, because the partition it names is the first that has one.
func (r *PopResponse) head() {
	b := append(r.body, `{"success":true,"queue":`...)
	b = AppendString(b, r.queue)
	b = append(b, `,"partition":`...)
	b = append(b, r.partitionName...)
	b = append(b, `,"partitionId":"`...)
	b = appendUUID(b, r.partitionID)
	b = append(b, `","leaseId":"`...)
	b = append(b, r.lease...)
	b = append(b, `","consumerGroup":`...)
	b = append(b, r.group...)
	r.body = append(b, `,"messages":[`...)
}

// createdAt renders a time once for all the messages of a segment, which share it.
func (r *PopResponse) createdAt(t time.Time) []byte {
	if len(r.stamp) == 0 || !t.Equal(r.stampTime) {
		r.stamp, r.stampTime = appendTime(r.stamp[:0], t), t
	}
	return r.stamp
}

// Lease is the lease of the answer as text, empty with autoAck.
func (r *PopResponse) Lease() string { return r.lease }

// Messages is how many messages were added since Begin.
func (r *PopResponse) Messages() int { return r.messages }

// Bytes completes the body and returns it. It is good until the next Begin, and empty when no message was added: such
// a pop has no body. Call it once.
func (r *PopResponse) Bytes() []byte {
	if r.messages == 0 {
		return nil
	}
	r.body = append(r.body, `],"partitionsClaimed":`...)
	r.body = strconv.AppendInt(r.body, int64(r.partitions), 10)
	r.body = append(r.body, '}')
	return r.body
}

// Cap is the size of the buffer kept, in bytes, so that a pool can let go of the largest.
func (r *PopResponse) Cap() int { return cap(r.body) }

// appendTime appends t as a JSON string in the one form times have on the wire: UTC, always six digits of microseconds.
func appendTime(dst []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(dst, `"2006-01-02T15:04:05.000000Z"`)
}
