package wire

import (
	"slices"
	"strconv"
)

// AckResult is the answer to one item of an ack.
type AckResult struct {
	TransactionID string
	Error         string // empty: the instruction was carried out
	LeaseReleased bool   // the lease on the item's partition ended
	DeadLettered  bool   // this ack filed a dead letter
	Noop          bool   // a completion of what was complete already
}

// AppendAckResults appends the body of an ack's answer: one element per item, in request order. The order of the keys
// is part of the contract.
func AppendAckResults(dst []byte, results []AckResult) []byte {
	size := 2
	for i := range results {
		size += ackResultBytes + len(results[i].TransactionID) + len(results[i].Error)
	}
	dst = append(slices.Grow(dst, size), '[')
	for i := range results {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendAckResult(dst, i, &results[i])
	}
	return append(dst, ']')
}

// ackResultBytes is what one result takes beside the transaction id and the error, unless these are escaped.
const ackResultBytes = 128

func appendAckResult(dst []byte, index int, r *AckResult) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	dst = append(dst, `,"transactionId":`...)
	dst = AppendString(dst, r.TransactionID)
	dst = append(dst, `,"success":`...)
	dst = strconv.AppendBool(dst, r.Error == "")
	dst = append(dst, `,"error":`...)
	if r.Error == "" {
		dst = append(dst, "null"...)
	} else {
		dst = AppendString(dst, r.Error)
	}
	dst = append(dst, `,"leaseReleased":`...)
	dst = strconv.AppendBool(dst, r.LeaseReleased)
	dst = append(dst, `,"dlq":`...)
	dst = strconv.AppendBool(dst, r.DeadLettered)
	dst = append(dst, `,"noop":`...)
	dst = strconv.AppendBool(dst, r.Noop)
	return append(dst, '}')
}
