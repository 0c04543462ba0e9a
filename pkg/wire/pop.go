package wire

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"queen.internal/pkg/queue"
)

// Defaults of a pop, contract section 2.2.
const (
	DefaultPopBatch      = 200
	DefaultPopPartitions = 1
)

// The subscription modes a pop can resolve to.
const (
	ModeNew = "new"
	ModeAll = "all"
)

// PopDefaults is what a pop that is silent on a parameter gets from the server's settings.
type PopDefaults struct {
	Timeout time.Duration // of a long poll
	Mode    string        // ModeNew or ModeAll
}

// PopQuery is the parameters of a pop with every default resolved.
type PopQuery struct {
	Batch        int           // message budget of the call, at least 1
	Partitions   int           // most partitions claimed; 0 means no cap
	Wait         bool          // long poll
	Timeout      time.Duration // of the long poll, at least 0
	AutoAck      bool
	LeaseSeconds int    // 0: the queue's own
	Group        string // queue.QueueMode when none was named
	Namespace    string // discovery only
	Task         string // discovery only

	mode      string    // ModeNew or ModeAll
	from      time.Time // zero: none
	fromIsNow bool      // subscriptionFrom=now
	fromIsBad bool      // subscriptionFrom that is no time
}

// Start is where the group begins if this pop turns out to be its first contact: a mode, and a time that goes before
// it when it is not zero. A subscriptionFrom that is no time means "from now on" for a whole queue, and nothing for a
// pinned partition.
func (q *PopQuery) Start(pinned bool) (mode string, from time.Time) {
	switch {
	case q.Group == queue.QueueMode:
		return ModeAll, time.Time{}
	case !q.from.IsZero():
		return q.mode, q.from
	case q.fromIsNow, q.fromIsBad && !pinned:
		return ModeNew, time.Time{}
	}
	return q.mode, time.Time{}
}

// ParsePop reads the raw query of a pop. A value that is not what its parameter needs is an error of kind Invalid that
// names the parameter; unknown parameters are ignored, and of a repeated one the last counts.
func ParsePop(rawQuery string, defaults PopDefaults) (PopQuery, error) {
	q := PopQuery{
		Batch:      DefaultPopBatch,
		Partitions: DefaultPopPartitions,
		Timeout:    defaults.Timeout,
		Group:      queue.QueueMode,
		mode:       defaults.Mode,
	}
	for rawQuery != "" {
		var pair string
		pair, rawQuery, _ = strings.Cut(rawQuery, "&")
		if pair == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(rawName)
		if err != nil {
			return PopQuery{}, queue.Invalid("query", fmt.Sprintf("query: %q is not percent-encoded text", rawName))
		}
		value, err := url.QueryUnescape(rawValue)
		if err != nil {
			return PopQuery{}, queue.Invalid(name, fmt.Sprintf("%s: %q is not percent-encoded text", name, rawValue))
		}
		if err := q.set(name, value); err != nil {
			return PopQuery{}, err
		}
	}
	return q, nil
}

// set stores one parameter, already unescaped.
func (q *PopQuery) set(name, value string) (err error) {
	switch name {
	case "batch":
		q.Batch, err = intParameter(name, value)
		q.Batch = max(q.Batch, 1)
	case "partitions":
		q.Partitions, err = intParameter(name, value)
		q.Partitions = max(q.Partitions, 0)
	case "leaseSeconds":
		q.LeaseSeconds, err = intParameter(name, value)
		q.LeaseSeconds = max(q.LeaseSeconds, 0)
	case "timeout":
		q.Timeout, err = millisecondsParameter(name, value)
	case "wait":
		q.Wait, err = boolParameter(name, value)
	case "autoAck":
		q.AutoAck, err = boolParameter(name, value)
	case "conflation", "autopilot":
		// Neither is offered; a client notices by the echo that is missing. Its value must be a boolean all the same.
		_, err = boolParameter(name, value)
	case "consumerGroup":
		if value != "" {
			q.Group, err = value, queue.CheckName(name, value)
		}
	case "namespace":
		q.Namespace, err = value, queue.CheckName(name, value)
	case "task":
		q.Task, err = value, queue.CheckName(name, value)
	case "subscriptionMode":
		q.setMode(value)
	case "subscriptionFrom":
		q.setFrom(value)
	}
	return err
}

func (q *PopQuery) setMode(value string) {
	switch value {
	case "": // the same as absent, like every empty name here
	case "new", "new-only":
		q.mode = ModeNew
	default:
		q.mode = ModeAll
	}
}

func (q *PopQuery) setFrom(value string) {
	q.from, q.fromIsNow, q.fromIsBad = time.Time{}, false, false
	switch value {
	case "":
	case "now":
		q.fromIsNow = true
	default:
		from, ok := parseTime(value)
		q.from, q.fromIsBad = from, !ok
	}
}

// timeLayouts are the ISO 8601 forms clients send. A form without a zone is read as UTC.
var timeLayouts = []string{
	"2006-01-02T15:04:05.999999999Z07:00",
	"2006-01-02T15:04:05.999999999Z0700",
	"2006-01-02T15:04:05.999999999Z07",
	"2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05.999999999Z07",
	"2006-01-02 15:04:05.999999999",
	"2006-01-02T15:04Z07:00",
	"2006-01-02T15:04",
	"2006-01-02",
}

// parseTime reads an ISO 8601 time of a query. A client that leaves "+02:00" unescaped sends a blank where the plus was, so
// a blank before a zone is read as one.
func parseTime(value string) (time.Time, bool) {
	if i := strings.LastIndexByte(value, ' '); i > len("2006-01-02") {
		value = value[:i] + "+" + value[i+1:]
	}
	return parseISO(value)
}

// parseISO reads an ISO 8601 time. Years that PostgreSQL cannot hold are no times.
func parseISO(text string) (time.Time, bool) {
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil && t.Year() >= 1 {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

func intParameter(name, value string) (int, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return 0, queue.Invalid(name, fmt.Sprintf("%s: %q is not an integer between %d and %d",
			name, value, math.MinInt32, math.MaxInt32))
	}
	return int(n), nil
}

func millisecondsParameter(name, value string) (time.Duration, error) {
	const most = math.MaxInt64 / int64(time.Millisecond)
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, queue.Invalid(name, fmt.Sprintf("%s: %q is not a number of milliseconds of at least 0", name, value))
	}
	return time.Duration(n) * time.Millisecond, nil
}

func boolParameter(name, value string) (bool, error) {
	switch value {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, queue.Invalid(name, fmt.Sprintf("%s: %q is neither true nor false", name, value))
}
