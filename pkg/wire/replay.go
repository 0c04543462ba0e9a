package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"queen.internal/pkg/queue"
)

// ReplayTarget is where a replay goes; an empty field is the dead letter's own.
type ReplayTarget struct{ Queue, Partition string }

// ScanReplayTarget reads the optional body of a replay. What is absent or null is the dead letter's own; a blank name, and
// anything that is no name, is an error of kind Invalid that names the field.
func ScanReplayTarget(body []byte) (t ReplayTarget, err error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return t, nil
	}
	var fields map[string]json.RawMessage // a struct would match the keys in any case
	if err := json.Unmarshal(body, &fields); err != nil {
		return t, &queue.Error{Kind: queue.KindInvalid, Field: "body", Message: "bad body: it is no JSON object", Err: err}
	}
	if t.Queue, err = targetName("queue", fields["queue"]); err != nil {
		return t, err
	}
	t.Partition, err = targetName("partition", fields["partition"])
	return t, err
}

func targetName(field string, raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	if err := checkUTF8(raw); err != nil {
		return "", queue.Invalid(field, field+" is not valid UTF-8")
	}
	var name string
	if json.Unmarshal(raw, &name) != nil {
		return "", queue.Invalid(field, field+" is not a string")
	}
	if name = strings.TrimSpace(name); name == "" {
		return "", queue.Invalid(field, field+" is blank; leave it out to replay to where the message was")
	}
	return name, queue.CheckName(field, name)
}

// ReplayResult is how a replay ended.
type ReplayResult string

// The results.
const (
	ReplayMoved     ReplayResult = "moved"
	ReplayDuplicate ReplayResult = "duplicate" // the destination has it already; the dead letter stays
	ReplayFailed    ReplayResult = "failed"    // nothing has changed
	ReplayUnknown   ReplayResult = "unknown"   // it may have been moved

	ReplayMaintenance ReplayResult = "maintenance" // nothing has changed: push maintenance is on, and a move cannot be spooled
)

// Replay is the outcome of a replay of a dead letter that was there.
type Replay struct {
	Result           ReplayResult
	Queue, Partition string // where to
	Group            string
	LetterID         uuid.UUID
	OldTransactionID string
	NewTransactionID string
	MessageID        uuid.UUID // when moved
	Offset           int64     // when moved
	Error            string    // when it is not there
}

// AppendReplay appends the body that answers a replay, and a retry, which is a replay to where the message was. That the
// destination has the message already is a success: it is not lost, though the dead letter is still there.
func AppendReplay(dst []byte, r *Replay) []byte {
	there := r.Result == ReplayMoved || r.Result == ReplayDuplicate
	dst = strconv.AppendBool(append(dst, `{"success":`...), there)
	dst = AppendString(append(dst, `,"result":`...), string(r.Result))
	dst = AppendString(append(dst, `,"queue":`...), r.Queue)
	dst = AppendString(append(dst, `,"partition":`...), r.Partition)
	dst = AppendString(append(dst, `,"consumerGroup":`...), r.Group)
	dst = appendUUID(append(dst, `,"dlqId":"`...), r.LetterID)
	dst = AppendString(append(dst, `","originalTransactionId":`...), r.OldTransactionID)
	if there {
		dst = appendReplayedAs(append(dst, `,"replayedAs":`...), r)
	} else {
		dst = AppendString(append(dst, `,"error":`...), r.Error)
	}
	switch r.Result {
	case ReplayMoved:
		return append(dst, `,"dlqRowRemoved":true}`...)
	case ReplayUnknown:
		return append(dst, `,"dlqRowRemoved":null}`...)
	}
	return append(dst, `,"dlqRowRemoved":false}`...)
}

// appendReplayedAs appends the message as the result of a push.
func appendReplayedAs(dst []byte, r *Replay) []byte {
	status, offset := Queued, strconv.FormatInt(r.Offset, 10)
	id := r.MessageID
	if r.Result == ReplayDuplicate {
		status, offset, id = Duplicate, "null", uuid.Nil
	}
	dst = appendUUID(append(dst, `{"index":0,"message_id":"`...), id)
	dst = AppendString(append(dst, `","transaction_id":`...), r.NewTransactionID)
	dst = AppendString(append(dst, `,"queueName":`...), r.Queue)
	dst = AppendString(append(dst, `,"status":`...), string(status))
	dst = append(append(dst, `,"offset":`...), offset...)
	return append(dst, '}')
}

// AppendReplayGone appends the body that answers a replay of a dead letter which is not there, with its id as the path had
// it.
func AppendReplayGone(dst []byte, letterID string) []byte {
	dst = AppendString(append(dst, `{"success":false,"result":"gone","dlqId":`...), letterID)
	return append(dst, `,"error":"`+messageNotFound+`","message":"no dead letter has this id; it may have been replayed or removed"}`...)
}
