package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// The statuses of an acknowledgment. An empty one is Completed.
const (
	Completed    = "completed"
	Retry        = "retry"
	NotCompleted = "failed"
	DeadLetter   = "dlq"
)

// Acknowledgment says what became of one message.
type Acknowledgment struct {
	TransactionID string `json:"transactionId"`
	PartitionID   string `json:"partitionId"`
	LeaseID       string `json:"leaseId,omitempty"`
	Status        string `json:"status,omitempty"`
	Error         string `json:"error,omitempty"`
}

// AckOf is the acknowledgment of m with status.
func AckOf(m Message, status string) Acknowledgment {
	return Acknowledgment{TransactionID: m.TransactionID, PartitionID: m.PartitionID, LeaseID: m.LeaseID, Status: status}
}

// AckResult is what the broker did with one acknowledgment. Success of a negative one means that it was carried out.
type AckResult struct {
	Index         int     `json:"index"`
	TransactionID string  `json:"transactionId"`
	Success       bool    `json:"success"`
	Error         *string `json:"error"`
	LeaseReleased bool    `json:"leaseReleased"`
	DeadLettered  bool    `json:"dlq"`
	Noop          bool    `json:"noop"`
}

// Ack acknowledges one message of group; an empty group is queue mode.
func (c *Client) Ack(ctx context.Context, group string, a Acknowledgment) (AckResult, error) {
	body, err := json.Marshal(struct {
		Acknowledgment
		Group string `json:"consumerGroup,omitempty"`
	}{a, group})
	if err != nil {
		return AckResult{}, fmt.Errorf("encode ack: %w", err)
	}
	results, err := c.ack(ctx, "/api/v1/ack", body, []Acknowledgment{a})
	if err != nil {
		return AckResult{}, wrap("ack", a.TransactionID, err)
	}
	return results[0], nil
}

// AckBatch acknowledges messages of group in one call; items that share partition and lease are decided as one. The
// results are in the order of acks.
func (c *Client) AckBatch(ctx context.Context, group string, acks []Acknowledgment) ([]AckResult, error) {
	body, err := json.Marshal(struct {
		Group string           `json:"consumerGroup,omitempty"`
		Acks  []Acknowledgment `json:"acknowledgments"`
	}{group, acks})
	if err != nil {
		return nil, fmt.Errorf("encode acks: %w", err)
	}
	results, err := c.ack(ctx, "/api/v1/ack/batch", body, acks)
	if err != nil {
		return nil, fmt.Errorf("ack %d messages: %w", len(acks), err)
	}
	return results, nil
}

func (c *Client) ack(ctx context.Context, path string, body []byte, acks []Acknowledgment) ([]AckResult, error) {
	r := call{method: http.MethodPost, path: path, body: body, repeatable: onlyCompletions(acks)}
	var results []AckResult
	if _, err := c.do(ctx, r, &results); err != nil {
		return nil, err
	}
	if len(results) != len(acks) {
		return nil, fmt.Errorf("the answer has %d results for %d acknowledgments", len(results), len(acks))
	}
	return results, nil
}

// onlyCompletions: a repeated negative ack could hit the next delivery of the same message when acks carry no lease.
func onlyCompletions(acks []Acknowledgment) bool {
	for _, a := range acks {
		if a.Status != "" && a.Status != Completed {
			return false
		}
	}
	return true
}

// Extension is what became of a lease. Renewed counts the partitions that hold it; when it is 0 the lease is gone and
// ExpiresAt is the zero time.
type Extension struct {
	LeaseID   string
	Renewed   int
	ExpiresAt time.Time
}

// Extend makes a lease last at least d (whole seconds, at least one) from now.
func (c *Client) Extend(ctx context.Context, lease string, d time.Duration) (Extension, error) {
	var answer struct {
		LeaseID   string     `json:"leaseId"`
		Renewed   int        `json:"renewed"`
		ExpiresAt *time.Time `json:"newExpiresAt"`
	}
	body := fmt.Appendf(nil, `{"seconds":%d}`, max(int64(d/time.Second), 1))
	path := "/api/v1/lease/" + url.PathEscape(lease) + "/extend"
	if _, err := c.do(ctx, call{method: http.MethodPost, path: path, body: body, repeatable: true}, &answer); err != nil {
		return Extension{}, wrap("extend lease", lease, err)
	}
	extension := Extension{LeaseID: answer.LeaseID, Renewed: answer.Renewed}
	if answer.ExpiresAt != nil {
		extension.ExpiresAt = *answer.ExpiresAt
	}
	return extension, nil
}

func wrap(doing, what string, err error) error {
	if what == "" {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s %q: %w", doing, what, err)
}
