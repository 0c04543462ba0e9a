package wire

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"queen.internal/pkg/queue"
)

// ListQuery reads the parameters of management routes. What is absent or empty has its default; what cannot be read is an
// error of kind Invalid that names the parameter. The first error sticks, so that it is looked at once, with Err.
type ListQuery struct {
	values url.Values
	err    error
}

// ParseListQuery reads the raw query of a request. Of a repeated parameter the first counts.
func ParseListQuery(raw string) *ListQuery {
	values, err := url.ParseQuery(raw)
	q := &ListQuery{values: values}
	if err != nil {
		q.fail("query", "query: "+err.Error())
	}
	return q
}

// Err is the first parameter that could not be read.
func (q *ListQuery) Err() error { return q.err }

func (q *ListQuery) fail(name, message string) {
	if q.err == nil {
		q.err = queue.Invalid(name, message)
	}
}

// Name is a name to look for; empty when there is none.
func (q *ListQuery) Name(name string) string {
	value := q.values.Get(name)
	if err := queue.CheckName(name, value); err != nil && q.err == nil {
		q.err = err
	}
	return value
}

// Int is a whole number between least and most.
func (q *ListQuery) Int(name string, fallback, least, most int) int {
	value := q.values.Get(name)
	if value == "" {
		return fallback
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		q.fail(name, fmt.Sprintf("%s: %q is not an integer between %d and %d", name, value, least, most))
		return fallback
	}
	return n
}

// Time is a moment in one of the ISO 8601 forms that pops take; the zero time when there is none.
func (q *ListQuery) Time(name string) time.Time {
	value := q.values.Get(name)
	if value == "" {
		return time.Time{}
	}
	t, ok := parseTime(value)
	if !ok {
		q.fail(name, fmt.Sprintf("%s: %q is not a time such as 2026-01-31T12:00:00Z", name, value))
	}
	return t
}

// Word is one of words; empty when there is none.
func (q *ListQuery) Word(name string, words ...string) string {
	value := q.values.Get(name)
	if value == "" {
		return ""
	}
	for _, word := range words {
		if word == value {
			return value
		}
	}
	q.fail(name, fmt.Sprintf("%s: %q is none of %v", name, value, words))
	return ""
}
