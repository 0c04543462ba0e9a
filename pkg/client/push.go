package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// Item is one message to push. An empty Partition is the default partition, an empty TransactionID lets the broker use
// the message id it mints. Payload is any JSON value and travels byte for byte.
type Item struct {
	Queue         string
	Partition     string
	TransactionID string
	Payload       json.RawMessage
}

// Status is the outcome of one pushed item.
type Status string

// The outcomes of a pushed item.
const (
	Queued    Status = "queued"
	Duplicate Status = "duplicate"
	Buffered  Status = "buffered"
	Failed    Status = "failed"
)

// PushResult is the outcome of the item at Index. Error is set when Status is Failed.
type PushResult struct {
	Index         int    `json:"index"`
	MessageID     string `json:"message_id"`
	TransactionID string `json:"transaction_id"`
	Queue         string `json:"queueName"`
	Status        Status `json:"status"`
	Error         string `json:"error"`
}

// Push sends items in one request and returns one result per item, in order. The request is repeated when its answer is
// missing only if every item carries a transaction id; an item that the lost attempt had stored then comes back as
// Duplicate. A payload that is not JSON is refused before anything is sent.
func (c *Client) Push(ctx context.Context, items []Item) ([]PushResult, error) {
	body, repeatable, err := encodePush(items)
	if err != nil {
		return nil, err
	}
	var results []PushResult
	r := call{method: http.MethodPost, path: "/api/v1/push", body: body, repeatable: repeatable}
	if _, err := c.do(ctx, r, &results); err != nil {
		return nil, fmt.Errorf("push %d items: %w", len(items), err)
	}
	if len(results) != len(items) {
		return nil, fmt.Errorf("push %d items: the answer has %d results", len(items), len(results))
	}
	return results, nil
}

// encodePush splices payloads by hand: json.Marshal would compact them and escape <, > and &.
func encodePush(items []Item) (body []byte, repeatable bool, err error) {
	var buf bytes.Buffer
	repeatable = true
	buf.WriteString(`{"items":[`)
	for i, item := range items {
		if !json.Valid(item.Payload) {
			return nil, false, fmt.Errorf("push item %d: the payload is not JSON", i)
		}
		if i > 0 {
			buf.WriteByte(',')
		}
		buf.WriteString(`{"queue":`)
		writeString(&buf, item.Queue)
		if item.Partition != "" {
			buf.WriteString(`,"partition":`)
			writeString(&buf, item.Partition)
		}
		if item.TransactionID != "" {
			buf.WriteString(`,"transactionId":`)
			writeString(&buf, item.TransactionID)
		} else {
			repeatable = false
		}
		buf.WriteString(`,"payload":`)
		buf.Write(item.Payload)
		buf.WriteByte('}')
	}
	buf.WriteString(`]}`)
	return buf.Bytes(), repeatable, nil
}

func writeString(buf *bytes.Buffer, s string) {
	text, _ := json.Marshal(s) // a string always has a JSON form
	buf.Write(text)
}
