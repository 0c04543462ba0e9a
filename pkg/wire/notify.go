package wire

import (
	"queen.internal/pkg/queue"
)

var notifyKeys = map[string]bool{"queue": true, "partition": true}

// ScanNotify reads the body of a notification: the queue whose waiting pops are to look again. A partition may be named and
// is only checked. Errors are of kind Invalid.
func ScanNotify(body []byte) (name string, err error) {
	if err := checkUTF8(body); err != nil {
		return "", err
	}
	found, err := members(body, notifyKeys)
	if err != nil {
		return "", err
	}
	if name, err = textMember(found, "queue"); err != nil {
		return "", err
	}
	if name == "" {
		return "", queue.Invalid("queue", "queue is required")
	}
	if _, err := textMember(found, "partition"); err != nil {
		return "", err
	}
	return name, queue.CheckName("queue", name)
}
