package wire

import (
	"strconv"
	"time"

	"github.com/google/uuid"
)

// DeadLetter is one dead letter as a listing shows it.
type DeadLetter struct {
	ID            uuid.UUID
	TransactionID string
	PartitionID   uuid.UUID
	Queue         string
	Partition     string
	Group         string
	Error         string
	RetryCount    int
	FailedAt      time.Time
	Payload       []byte // spliced in as it is; empty renders as null
	Sealed        bool   // Payload is an envelope that no key opened
	Omitted       bool   // the listing had no room for the payload
}

// DeadLetterPage is the place of a listing's page and whether there are more behind it.
type DeadLetterPage struct {
	Limit, Offset int
	More          bool
}

// AppendDeadLetters appends the body of a listing. Its total is the length of the page: clients expect that.
func AppendDeadLetters(dst []byte, letters []DeadLetter, page DeadLetterPage) []byte {
	dst = append(dst, `{"messages":[`...)
	for i := range letters {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendDeadLetter(dst, &letters[i])
	}
	dst = append(dst, `],"pagination":{"limit":`...)
	dst = strconv.AppendInt(dst, int64(page.Limit), 10)
	dst = append(dst, `,"offset":`...)
	dst = strconv.AppendInt(dst, int64(page.Offset), 10)
	dst = append(dst, `},"total":`...)
	dst = strconv.AppendInt(dst, int64(len(letters)), 10)
	dst = append(dst, `,"truncated":`...)
	dst = strconv.AppendBool(dst, page.More)
	return append(dst, '}')
}

func appendDeadLetter(dst []byte, l *DeadLetter) []byte {
	dst = appendUUID(append(dst, `{"id":"`...), l.ID)
	dst = AppendString(append(dst, `","transactionId":`...), l.TransactionID)
	dst = appendUUID(append(dst, `,"partitionId":"`...), l.PartitionID)
	dst = AppendString(append(dst, `","queue":`...), l.Queue)
	dst = AppendString(append(dst, `,"partition":`...), l.Partition)
	dst = AppendString(append(dst, `,"consumerGroup":`...), l.Group)
	dst = AppendString(append(dst, `,"errorMessage":`...), l.Error)
	dst = strconv.AppendInt(append(dst, `,"retryCount":`...), int64(l.RetryCount), 10)
	dst = appendPayload(append(dst, `,"data":`...), l.Payload)
	// Who produced the message is not kept with its snapshot.
	dst = appendMillis(append(dst, `,"producerSub":null,"createdAt":`...), l.FailedAt)
	dst = appendMillis(append(dst, `,"failedAt":`...), l.FailedAt)
	if l.Sealed {
		dst = append(dst, `,"isEncrypted":true`...)
	}
	if l.Omitted {
		dst = append(dst, `,"payloadAvailable":false`...)
	}
	return append(dst, '}')
}

// appendPayload splices a stored payload in; nothing is null.
func appendPayload(dst, payload []byte) []byte {
	if len(payload) == 0 {
		return append(dst, "null"...)
	}
	return append(dst, payload...)
}

// appendMillis appends t as management routes tell times: UTC, three digits of milliseconds.
func appendMillis(dst []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(dst, `"2006-01-02T15:04:05.000Z"`)
}

// AppendPurge appends the body of a purge's answer. Nothing to remove is a success.
func AppendPurge(dst []byte, queue, group string, removed int) []byte {
	dst = strconv.AppendInt(append(dst, `{"success":true,"deleted":`...), int64(removed), 10)
	dst = AppendString(append(dst, `,"queue":`...), queue)
	dst = append(dst, `,"consumerGroup":`...)
	if group == "" {
		dst = append(dst, "null"...)
	} else {
		dst = AppendString(dst, group)
	}
	return append(dst, '}')
}

// messageNotFound is what the routes of one message say of one that is not there, in words that clients look for.
const messageNotFound = "Message not found"

// AppendRemoval appends the body of the answer to a removal of the dead letters of an address, with both ids as the path
// had them.
func AppendRemoval(dst []byte, partitionID, transactionID string, found bool) []byte {
	dst = append(dst, `{"success":`...)
	dst = strconv.AppendBool(dst, found)
	dst = AppendString(append(dst, `,"partitionId":`...), partitionID)
	dst = AppendString(append(dst, `,"transactionId":`...), transactionID)
	if found {
		return append(dst, `,"message":"Message deleted successfully"}`...)
	}
	dst = append(dst, `,"error":"`+messageNotFound+`","message":"no dead letter has this partition and transaction id"}`...)
	return dst
}
