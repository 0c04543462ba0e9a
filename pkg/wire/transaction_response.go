package wire

import (
	"strconv"

	"github.com/google/uuid"
)

// OperationResult is the answer to one operation of a transaction that was committed.
type OperationResult struct {
	IsAck         bool
	TransactionID string // of the message acked or pushed
	// Of an ack.
	Error        string // empty: the instruction was carried out
	DeadLettered bool
	// Of a push.
	MessageID uuid.UUID
	Queue     string
	Duplicate bool // an earlier operation brought the same transaction id: that message is meant
}

// AppendTransaction appends the answer to a transaction that was committed. The order of the keys is part of the contract.
func AppendTransaction(dst []byte, id uuid.UUID, results []OperationResult) []byte {
	dst = appendUUID(append(dst, `{"transactionId":"`...), id)
	dst = append(dst, `","success":true,"results":[`...)
	for i := range results {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendOperationResult(dst, i, &results[i])
	}
	return append(dst, "]}"...)
}

func appendOperationResult(dst []byte, index int, r *OperationResult) []byte {
	dst = strconv.AppendInt(append(dst, `{"index":`...), int64(index), 10)
	if r.IsAck {
		dst = strconv.AppendBool(append(dst, `,"type":"ack","success":`...), r.Error == "")
		dst = AppendString(append(dst, `,"transactionId":`...), r.TransactionID)
		dst = append(dst, `,"error":`...)
		if r.Error == "" {
			dst = append(dst, "null"...)
		} else {
			dst = AppendString(dst, r.Error)
		}
		dst = strconv.AppendBool(append(dst, `,"dlq":`...), r.DeadLettered)
		return append(dst, '}')
	}
	dst = AppendString(append(dst, `,"type":"push","success":true,"transactionId":`...), r.TransactionID)
	dst = appendUUID(append(dst, `,"messageId":"`...), r.MessageID)
	dst = AppendString(append(dst, `","queueName":`...), r.Queue)
	if r.Duplicate {
		dst = append(dst, `,"duplicate":true`...)
	}
	return append(dst, '}')
}

// TransactionFailure is why nothing of a transaction happened.
type TransactionFailure struct {
	Error  string // for people; begins with QDUP or QTXN when the transaction was tried
	Reason string // for programs
	// Index is the operation that is at fault, negative when none in particular is.
	Index      int
	Duplicates []TransactionDuplicate
}

// TransactionDuplicate is an operation whose message is stored already. The id of an original that can no longer be read
// is all zero.
type TransactionDuplicate struct {
	Index         int
	TransactionID string
	MessageID     uuid.UUID
}

// The reasons of a failure.
const (
	ReasonBadRequest  = "bad_request"
	ReasonDuplicate   = "duplicate"
	ReasonAckRejected = "ack_rejected"
	ReasonDatabase    = "db_error"
	ReasonNoKey       = "encryption_unavailable"
)

// AppendTransactionFailure appends the answer to a transaction of which nothing happened.
func AppendTransactionFailure(dst []byte, id uuid.UUID, f *TransactionFailure) []byte {
	dst = appendUUID(append(dst, `{"transactionId":"`...), id)
	dst = AppendString(append(dst, `","success":false,"error":`...), f.Error)
	dst = AppendString(append(dst, `,"reason":`...), f.Reason)
	if f.Index >= 0 {
		dst = strconv.AppendInt(append(dst, `,"failedIndex":`...), int64(f.Index), 10)
	}
	for i, d := range f.Duplicates {
		if i == 0 {
			dst = append(dst, `,"duplicates":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(append(dst, `{"index":`...), int64(d.Index), 10)
		dst = AppendString(append(dst, `,"transactionId":`...), d.TransactionID)
		dst = appendUUID(append(dst, `,"messageId":"`...), d.MessageID)
		dst = append(dst, `"}`...)
	}
	if len(f.Duplicates) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, `,"results":[]}`...)
}
