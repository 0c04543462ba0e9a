package queue

import (
	"fmt"
	"regexp"
)

// Options are the settings of one queue. A nil field is an option that nobody spoke of: a change keeps it. What a store
// answers has no nil field.
type Options struct {
	Namespace                   *string // discovery label, exact match
	Task                        *string // discovery label, exact match
	Priority                    *int32  // kept and told, nothing more
	LeaseSeconds                *int32  // of a pop that names none
	RetryLimit                  *int32  // explicit failures before a message is given up
	RetryDelayMillis            *int32  // kept and told, nothing more
	MaxSize                     *int32  // kept and told, nothing more
	TTLSeconds                  *int32  // kept and told, nothing more
	DeadLetterQueue             *bool   // this or the next: what is given up becomes a dead letter
	DeadLetterAfterRetries      *bool
	DelayedProcessingSeconds    *int32 // least age of what is delivered
	WindowBufferSeconds         *int32 // how long the first message waits for company
	RetentionSeconds            *int32 // segments older than this are deleted, consumed or not
	CompletedRetentionSeconds   *int32 // segments older than this are deleted once every group has passed them
	RetentionEnabled            *bool  // switch of the two before
	EncryptionEnabled           *bool
	MaxWaitSeconds              *int32  // segments older than this are deleted whatever the switch says
	MinPopWaitMillis            *int32  // how long a pop may be held to fill its batch, 0 to 60000
	DedupWindowSeconds          *int32  // 0: only inside a request
	RetentionSinkHold           *string // name of a consumer that retention waits for
	RetentionSinkHoldMaxSeconds *int32  // 60 to 31536000
	DeliveryLimit               *int32  // deliveries to one group before a message is given up; 0: any number, else at least 2
	RedeliveryDelaySeconds      *int32  // how long a nacked message, and what is behind it, waits; 0 to 86400
	Spool                       *bool   // a push that the database cannot take goes to disk; false: it fails
}

// DefaultOptions are the options of a queue that configure creates, and what null restores. A queue that a push or a pop
// creates differs in three: it leases for 60 s, and its labels are derived from its name.
func DefaultOptions() Options {
	return Options{
		Namespace: new(""), Task: new(""),
		Priority: new(int32(0)), LeaseSeconds: new(int32(300)), RetryLimit: new(int32(3)), RetryDelayMillis: new(int32(1000)),
		MaxSize: new(int32(0)), TTLSeconds: new(int32(3600)),
		DeadLetterQueue: new(true), DeadLetterAfterRetries: new(true),
		DelayedProcessingSeconds: new(int32(0)), WindowBufferSeconds: new(int32(0)),
		RetentionSeconds: new(int32(0)), CompletedRetentionSeconds: new(int32(0)), RetentionEnabled: new(false),
		EncryptionEnabled: new(false), MaxWaitSeconds: new(int32(0)), MinPopWaitMillis: new(int32(0)),
		DedupWindowSeconds: new(int32(3600)),
		RetentionSinkHold:  new(""), RetentionSinkHoldMaxSeconds: new(int32(604800)),
		DeliveryLimit: new(int32(0)), RedeliveryDelaySeconds: new(int32(0)),
		Spool: new(true),
	}
}

const (
	// MaxLabelBytes bounds namespace and task. Both are keys of one index entry, where the other one may have been
	// derived from a name of MaxNameBytes.
	MaxLabelBytes = 512

	maxMinPopWaitMillis = 60_000
	minSinkHoldSeconds  = 60
	maxSinkHoldSeconds  = 31_536_000

	maxRedeliveryDelaySeconds = 86_400
)

var sinkName = regexp.MustCompile(`^[A-Za-z0-9._-]{0,64}$`)

// Settle brings the options that are clamped into their bounds and refuses those that are not: the error is of kind
// Invalid and its field is the option's wire name.
func (o *Options) Settle() error {
	if o.MinPopWaitMillis != nil {
		o.MinPopWaitMillis = new(min(max(*o.MinPopWaitMillis, 0), maxMinPopWaitMillis))
	}
	if o.DedupWindowSeconds != nil {
		o.DedupWindowSeconds = new(max(*o.DedupWindowSeconds, 0))
	}
	if err := checkLabel("namespace", o.Namespace); err != nil {
		return err
	}
	if err := checkLabel("task", o.Task); err != nil {
		return err
	}
	if o.RetentionSinkHold != nil && !sinkName.MatchString(*o.RetentionSinkHold) {
		return Invalid("retentionSinkHold", "retentionSinkHold is not made of at most 64 letters, digits, dots, underscores and hyphens")
	}
	if n := o.RetentionSinkHoldMaxSeconds; n != nil && (*n < minSinkHoldSeconds || *n > maxSinkHoldSeconds) {
		return Invalid("retentionSinkHoldMaxSeconds",
			fmt.Sprintf("retentionSinkHoldMaxSeconds is not between %d and %d", minSinkHoldSeconds, maxSinkHoldSeconds))
	}
	if n := o.DeliveryLimit; n != nil && *n != 0 && *n < 2 {
		return Invalid("deliveryLimit", "deliveryLimit is neither 0 (off) nor at least 2")
	}
	if n := o.RedeliveryDelaySeconds; n != nil && (*n < 0 || *n > maxRedeliveryDelaySeconds) {
		return Invalid("redeliveryDelaySeconds", fmt.Sprintf("redeliveryDelaySeconds is not between 0 and %d", maxRedeliveryDelaySeconds))
	}
	return nil
}

func checkLabel(field string, value *string) error {
	if value == nil {
		return nil
	}
	return checkText(field, *value, MaxLabelBytes)
}
