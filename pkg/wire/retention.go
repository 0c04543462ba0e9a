package wire

import "time"

// TimeRange is the time that an answer of the analytics tells of.
type TimeRange struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// bucketWidths are the widths of buckets, by the longest range each is for; beyond the last it is six hours.
var bucketWidths = []struct{ upTo, width time.Duration }{
	{time.Hour, time.Minute},
	{6 * time.Hour, 5 * time.Minute},
	{24 * time.Hour, 15 * time.Minute},
	{7 * 24 * time.Hour, time.Hour},
}

// BucketWidth is how wide the buckets of a range are.
func BucketWidth(span time.Duration) time.Duration {
	for _, w := range bucketWidths {
		if span <= w.upTo {
			return w.width
		}
	}
	return 6 * time.Hour
}

// RetentionCounts are messages that were removed, by rule, and in how many steps.
type RetentionCounts struct {
	Aged      int64 `json:"retentionMsgs"`
	Completed int64 `json:"completedRetentionMsgs"`
	Evicted   int64 `json:"evictionMsgs"`
	Total     int64 `json:"totalMsgs"`
	Events    int64 `json:"eventCount"`
	Unread    int64 `json:"unreadMsgs"` // of the total: somebody had still to consume them
}

// Add sums up.
func (c *RetentionCounts) Add(o RetentionCounts) {
	c.Aged += o.Aged
	c.Completed += o.Completed
	c.Evicted += o.Evicted
	c.Total += o.Total
	c.Events += o.Events
	c.Unread += o.Unread
}

// RetentionBucket is what was removed in one bucket.
type RetentionBucket struct {
	Bucket time.Time `json:"bucket"`
	RetentionCounts
}

// RetentionHold is the group that holds a queue up, and since when.
type RetentionHold struct {
	Group      string    `json:"consumerGroup"`
	Since      time.Time `json:"since"`
	Partitions int64     `json:"partitions"`
}

// RetentionQueue is what was removed of one queue.
type RetentionQueue struct {
	Queue      string         `json:"queue"`
	Aged       int64          `json:"retentionMsgs"`
	Completed  int64          `json:"completedRetentionMsgs"`
	Evicted    int64          `json:"evictionMsgs"`
	Unread     int64          `json:"unreadMsgs"`
	Partitions int64          `json:"partitionsDeleted"`
	HeldBy     *RetentionHold `json:"heldBy"` // null: nobody
}

// Retention is the body of the answer.
type Retention struct {
	TimeRange     TimeRange         `json:"timeRange"`
	BucketMinutes int               `json:"bucketMinutes"`
	Series        []RetentionBucket `json:"series"`
	Totals        RetentionCounts   `json:"totals"`
	Queues        []RetentionQueue  `json:"queues"`
	Truncated     bool              `json:"truncated"`
}
