package wire

import (
	"strconv"

	"github.com/google/uuid"
)

// PushStatus is what became of one item of a push.
type PushStatus string

// The statuses a push answers with. Clients compare them as text.
const (
	Queued    PushStatus = "queued"    // committed
	Duplicate PushStatus = "duplicate" // its transaction id is there already; nothing was written
	Buffered  PushStatus = "buffered"  // on this machine's disk, committed later
	Failed    PushStatus = "failed"    // stored nowhere; Error says why
)

// PushResult is the answer to one item.
type PushResult struct {
	MessageID     uuid.UUID // of a duplicate: the original's, or zero when that can no longer be read
	TransactionID string    // the key in force
	Queue         string
	Status        PushStatus
	Error         string // only with Failed
}

// AppendPushResults appends the body of a push's answer: one element per item, in request order. The order of the keys
// is part of the contract.
func AppendPushResults(dst []byte, results []PushResult) []byte {
	dst = append(dst, '[')
	for i := range results {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendPushResult(dst, i, &results[i])
	}
	return append(dst, ']')
}

func appendPushResult(dst []byte, index int, r *PushResult) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	dst = append(dst, `,"message_id":"`...)
	dst = appendUUID(dst, r.MessageID)
	dst = append(dst, `","transaction_id":`...)
	dst = AppendString(dst, r.TransactionID)
	dst = append(dst, `,"queueName":`...)
	dst = AppendString(dst, r.Queue)
	dst = append(dst, `,"status":"`...)
	dst = append(dst, r.Status...)
	dst = append(dst, '"')
	if r.Status == Failed {
		dst = append(dst, `,"error":`...)
		dst = AppendString(dst, r.Error)
	}
	return append(dst, '}')
}

// appendUUID appends the 36 characters of id.
func appendUUID(dst []byte, id uuid.UUID) []byte {
	for i, b := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = append(dst, hexDigits[b>>4], hexDigits[b&15])
	}
	return dst
}
