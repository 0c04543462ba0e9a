package wire

import (
	"encoding/json"
	"time"

	"queen.internal/pkg/queue"
)

// ScanSeek reads the body of a seek: nil is the end, else the time to go to. Errors are of kind Invalid.
func ScanSeek(body []byte) (to *time.Time, err error) {
	found, err := groupMembers(body)
	if err != nil {
		return nil, err
	}
	toEnd := false
	if raw, ok := found["toEnd"]; ok && string(raw) != "null" && json.Unmarshal(raw, &toEnd) != nil {
		return nil, badBody("toEnd", "toEnd must be true or false")
	}
	text, err := textMember(found, "timestamp")
	switch {
	case err != nil:
		return nil, err
	case toEnd:
		return nil, nil
	case text == "":
		return nil, queue.Invalid("timestamp", "Must specify toEnd=true or a timestamp")
	}
	return timeMember("timestamp", text)
}

// ScanSubscription reads the body of a change of a group's subscription. Errors are of kind Invalid.
func ScanSubscription(body []byte) (text string, from time.Time, err error) {
	found, err := groupMembers(body)
	if err != nil {
		return "", time.Time{}, err
	}
	if text, err = textMember(found, "subscriptionTimestamp"); err != nil {
		return "", time.Time{}, err
	}
	if text == "" {
		return "", time.Time{}, queue.Invalid("subscriptionTimestamp", "subscriptionTimestamp is required")
	}
	at, err := timeMember("subscriptionTimestamp", text)
	if err != nil {
		return "", time.Time{}, err
	}
	return text, *at, nil
}

// groupKeys are the keys of these bodies that mean something.
var groupKeys = map[string]bool{"toEnd": true, "timestamp": true, "subscriptionTimestamp": true}

// groupMembers is members of a body that must be an object.
func groupMembers(body []byte) (map[string][]byte, error) {
	if err := checkUTF8(body); err != nil {
		return nil, err
	}
	found, err := members(body, groupKeys)
	if err != nil {
		return nil, err
	}
	if s := (scanner{data: body}); s.blanks() != '{' {
		return nil, badBody("body", "it must be an object")
	}
	return found, nil
}

// textMember is a member that is text; null and absent are empty.
func textMember(found map[string][]byte, key string) (text string, err error) {
	if raw, ok := found[key]; ok && json.Unmarshal(raw, &text) != nil { // null leaves text alone
		return "", badBody(key, key+" must be text")
	}
	return text, nil
}

func timeMember(key, text string) (*time.Time, error) {
	at, ok := parseISO(text)
	if !ok {
		return nil, queue.Invalid(key, key+" must be an ISO 8601 time such as 2026-08-01T00:00:00Z")
	}
	return &at, nil
}

// Milliseconds is how management routes write a time: UTC, three digits.
func Milliseconds(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
