package wire

import (
	"encoding/hex"
	"strconv"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/queue"
)

// MessageStatus is how far a message has come.
type MessageStatus string

// The statuses, in the order in which the first that fits counts.
const (
	StatusDeadLetter MessageStatus = "dead_letter" // some group has given it up
	StatusCompleted  MessageStatus = "completed"   // every group is past it
	StatusProcessing MessageStatus = "processing"  // some group has it under a live lease
	StatusPending    MessageStatus = "pending"
)

// StoredMessage is one message as people look at it.
type StoredMessage struct {
	ID            uuid.UUID
	TransactionID string
	Payload       []byte // spliced in as it is; empty renders as null
	Sealed        bool   // Payload is an envelope that no key opened
	TraceID       *uuid.UUID
	ProducerSub   string // empty renders as null
	CreatedAt     time.Time
	PartitionID   uuid.UUID
	Partition     string
	Queue         string
	Status        MessageStatus
	LeaseExpires  time.Time // zero renders as null
}

// MessageGroup is how one group stands to a message.
type MessageGroup struct {
	Name         string
	Consumed     bool
	LeaseExpires time.Time // zero renders as null
}

// MessageMode says who reads a queue: named groups, consumers without a group, both or nobody.
type MessageMode struct {
	QueueMode   bool
	NamedGroups int
}

// MessageDetail is a message with everything around it.
type MessageDetail struct {
	StoredMessage
	Options    queue.Options // of its queue, in force; none is nil
	DeadLetter bool
	Error      string // why it is a dead letter
	RetryCount int    // as a dead letter
	Mode       MessageMode
	Groups     []MessageGroup
}

// AppendMessageDetail appends the body that shows one message.
func AppendMessageDetail(dst []byte, m *MessageDetail) []byte {
	dst = append(dst, '{')
	dst = appendIdentity(dst, &m.StoredMessage)
	dst = appendContent(dst, &m.StoredMessage)
	dst = append(dst, ',')
	dst = appendWhere(dst, &m.StoredMessage)
	dst = AppendString(append(dst, `,"namespace":`...), *m.Options.Namespace)
	dst = AppendString(append(dst, `,"task":`...), *m.Options.Task)
	dst = AppendString(append(dst, `,"status":`...), string(m.Status))
	dst = append(dst, `,"errorMessage":`...)
	if m.DeadLetter {
		dst = AppendString(dst, m.Error)
	} else {
		dst = append(dst, "null"...)
	}
	dst = strconv.AppendInt(append(dst, `,"retryCount":`...), int64(m.RetryCount), 10)
	dst = appendOptionalMillis(append(dst, `,"leaseExpiresAt":`...), m.LeaseExpires)
	dst = append(dst, `,"queueConfig":{`...)
	for i, option := range optionKeys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendOption(dst, option.key, option.at(&m.Options))
	}
	kind := "queue"
	if m.Mode.NamedGroups > 0 {
		kind = "bus"
	}
	dst = appendMode(append(dst, `},"mode":`...), m.Mode, kind)
	dst = append(dst, `,"consumerGroups":[`...)
	for i := range m.Groups {
		g := &m.Groups[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(append(dst, `{"name":`...), g.Name)
		dst = AppendString(append(dst, `,"group":`...), g.Name)
		dst = strconv.AppendBool(append(dst, `,"consumed":`...), g.Consumed)
		dst = appendOptionalMillis(append(dst, `,"leaseExpiresAt":`...), g.LeaseExpires)
		dst = append(dst, '}')
	}
	return append(dst, ']', '}')
}

// ListedMessage is one message of a listing.
type ListedMessage struct {
	StoredMessage
	Gone            bool // the segment could not be read: what stands in it is unknown
	Hash            uuid.UUID
	Namespace, Task string
	Priority        int32
	QueueStatus     MessageStatus // to consumers without a group
	ConsumedBy      int           // of the named groups
	NamedGroups     int
	Base, Offset    int64 // of its segment, and its own
}

// AppendMessages appends the body of a listing. Its total is the length of the page: clients expect that.
func AppendMessages(dst []byte, messages []ListedMessage, mode MessageMode, more bool) []byte {
	dst = append(dst, `{"messages":[`...)
	for i := range messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendListed(dst, &messages[i])
	}
	kind := "none"
	switch {
	case mode.QueueMode && mode.NamedGroups > 0:
		kind = "hybrid"
	case mode.QueueMode:
		kind = "queue"
	case mode.NamedGroups > 0:
		kind = "bus"
	}
	dst = appendMode(append(dst, `],"mode":`...), mode, kind)
	dst = strconv.AppendInt(append(dst, `,"total":`...), int64(len(messages)), 10)
	dst = strconv.AppendBool(append(dst, `,"truncated":`...), more)
	return append(dst, '}')
}

func appendListed(dst []byte, m *ListedMessage) []byte {
	dst = append(dst, '{')
	if m.Gone {
		dst = append(dst, `"id":null,"transactionId":null`...)
	} else {
		dst = appendIdentity(dst, &m.StoredMessage)
	}
	dst = hex.AppendEncode(append(dst, `,"txnHash":"`...), m.Hash[:])
	dst = appendWhere(append(dst, `",`...), &m.StoredMessage)
	dst = AppendString(append(dst, `,"namespace":`...), m.Namespace)
	dst = AppendString(append(dst, `,"task":`...), m.Task)
	dst = AppendString(append(dst, `,"status":`...), string(m.Status))
	dst = AppendString(append(dst, `,"queueStatus":`...), string(m.QueueStatus))
	dst = strconv.AppendInt(append(dst, `,"busStatus":{"consumedBy":`...), int64(m.ConsumedBy), 10)
	dst = strconv.AppendInt(append(dst, `,"totalGroups":`...), int64(m.NamedGroups), 10)
	dst = strconv.AppendInt(append(dst, `},"queuePriority":`...), int64(m.Priority), 10)
	dst = strconv.AppendBool(append(dst, `,"payloadAvailable":`...), len(m.Payload) > 0)
	dst = strconv.AppendInt(append(dst, `,"segment":{"seq":`...), m.Base, 10)
	dst = strconv.AppendInt(append(dst, `,"frameIdx":`...), m.Offset-m.Base, 10)
	dst = appendOptionalMillis(append(dst, `},"leaseExpiresAt":`...), m.LeaseExpires)
	dst = appendContent(dst, &m.StoredMessage)
	return append(dst, '}')
}

func appendIdentity(dst []byte, m *StoredMessage) []byte {
	dst = appendUUID(append(dst, `"id":"`...), m.ID)
	return AppendString(append(dst, `","transactionId":`...), m.TransactionID)
}

// appendContent appends what the producer said and when, with a comma before it. data and payload are one thing under two
// names.
func appendContent(dst []byte, m *StoredMessage) []byte {
	dst = appendPayload(append(dst, `,"data":`...), m.Payload)
	dst = appendPayload(append(dst, `,"payload":`...), m.Payload)
	dst = append(dst, `,"traceId":`...)
	if m.TraceID == nil {
		dst = append(dst, "null"...)
	} else {
		dst = append(appendUUID(append(dst, '"'), *m.TraceID), '"')
	}
	dst = append(dst, `,"producerSub":`...)
	if m.ProducerSub == "" {
		dst = append(dst, "null"...)
	} else {
		dst = AppendString(dst, m.ProducerSub)
	}
	dst = appendMillis(append(dst, `,"createdAt":`...), m.CreatedAt)
	return strconv.AppendBool(append(dst, `,"isEncrypted":`...), m.Sealed)
}

func appendWhere(dst []byte, m *StoredMessage) []byte {
	dst = appendUUID(append(dst, `"partitionId":"`...), m.PartitionID)
	dst = AppendString(append(dst, `","partition":`...), m.Partition)
	dst = AppendString(append(dst, `,"queue":`...), m.Queue)
	return AppendString(append(dst, `,"queuePath":`...), m.Queue+"/"+m.Partition)
}

func appendMode(dst []byte, mode MessageMode, kind string) []byte {
	dst = strconv.AppendBool(append(dst, `{"hasQueueMode":`...), mode.QueueMode)
	dst = strconv.AppendInt(append(dst, `,"busGroupsCount":`...), int64(mode.NamedGroups), 10)
	dst = AppendString(append(dst, `,"type":`...), kind)
	return append(dst, '}')
}

func appendOptionalMillis(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, "null"...)
	}
	return appendMillis(dst, t)
}
