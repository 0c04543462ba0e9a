package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// PopRequest is one pop's wish. Queue alone lets the broker choose partitions, Queue and Partition pin one; without a
// Queue, Namespace and Task select the queues. Zero values leave the broker's defaults in force.
type PopRequest struct {
	Queue     string
	Partition *string // a pointer, because the empty name is a legal partition
	Namespace string
	Task      string

	Group      string // empty: queue mode
	Batch      int
	Partitions int
	Lease      time.Duration // whole seconds
	AutoAck    bool
	Mode       string // "new" or "all", read at the group's first contact
	From       string // "now" or a timestamp, read at the group's first contact

	Wait time.Duration // long poll for so long; 0 answers at once
}

// Message is one delivered message. Data is the payload as it was pushed, to the byte.
type Message struct {
	ID              string          `json:"id"`
	TransactionID   string          `json:"transactionId"`
	TraceID         *string         `json:"traceId"`
	Data            json.RawMessage `json:"data"`
	ProducerSub     *string         `json:"producerSub"`
	CreatedAt       string          `json:"createdAt"`
	PartitionID     string          `json:"partitionId"`
	Partition       string          `json:"partition"`
	LeaseID         string          `json:"leaseId"`
	Group           string          `json:"consumerGroup"`
	DeliveryAttempt int             `json:"deliveryAttempt"`
}

// Batch is what one pop delivered. One LeaseID holds for all its partitions.
type Batch struct {
	Queue             string    `json:"queue"`
	Partition         string    `json:"partition"`
	PartitionID       string    `json:"partitionId"`
	LeaseID           string    `json:"leaseId"`
	Group             string    `json:"consumerGroup"`
	Messages          []Message `json:"messages"`
	PartitionsClaimed int       `json:"partitionsClaimed"`
}

// Pop asks for messages once. Nothing to deliver is a Batch without messages, not an error. After an error it is not
// known whether a lease was taken; if one was, it expires by itself.
func (c *Client) Pop(ctx context.Context, r PopRequest) (Batch, error) {
	var batch Batch
	wait := time.Duration(0)
	if r.Wait > 0 {
		wait = r.Wait + answerMargin
	}
	_, err := c.do(ctx, call{method: http.MethodGet, path: r.path(), wait: wait}, &batch)
	if err != nil {
		return Batch{}, wrap("pop", r.Queue, err)
	}
	return batch, nil
}

func (r PopRequest) path() string {
	path := "/api/v1/pop"
	if r.Queue != "" {
		path += "/queue/" + url.PathEscape(r.Queue)
		if r.Partition != nil {
			path += "/partition/" + url.PathEscape(*r.Partition)
		}
	}
	if query := r.query().Encode(); query != "" {
		path += "?" + query
	}
	return path
}

func (r PopRequest) query() url.Values {
	q := url.Values{}
	text := func(name, value string) {
		if value != "" {
			q.Set(name, value)
		}
	}
	number := func(name string, value int64) {
		if value > 0 {
			q.Set(name, strconv.FormatInt(value, 10))
		}
	}
	text("namespace", r.Namespace)
	text("task", r.Task)
	text("consumerGroup", r.Group)
	text("subscriptionMode", r.Mode)
	text("subscriptionFrom", r.From)
	number("batch", int64(r.Batch))
	number("partitions", int64(r.Partitions))
	number("leaseSeconds", int64(r.Lease/time.Second))
	if r.AutoAck {
		q.Set("autoAck", "true")
	}
	if r.Wait > 0 {
		q.Set("wait", "true")
		number("timeout", r.Wait.Milliseconds())
	}
	return q
}
