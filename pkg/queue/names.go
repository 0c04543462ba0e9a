package queue

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// DefaultTenant owns everything while tenancy is off.
var DefaultTenant = uuid.MustParse("00000000-0000-0000-0000-000000000001")

const (
	// DefaultPartition is where an item without a partition lands.
	DefaultPartition = "Default"
	// QueueMode is the reserved group name that stands for "no consumer group given".
	QueueMode = "__QUEUE_MODE__"

	// MaxNameBytes bounds queue, partition and group names. They are keys of btree indexes, whose entries end at
	// about 2700 bytes; a tenant id and the page overhead share that room.
	MaxNameBytes = 2048
	// MaxTransactionIDBytes is the wire contract's bound of a transaction id.
	MaxTransactionIDBytes = 65535
)

// CheckName says whether value may name a queue, partition or group. The error is of kind Invalid, names the field and
// says what to change. The empty string is a legal name.
func CheckName(field, value string) error {
	return checkText(field, value, MaxNameBytes)
}

// CheckTransactionID says whether value may be a transaction id; the error is of kind Invalid.
func CheckTransactionID(field, value string) error {
	return checkText(field, value, MaxTransactionIDBytes)
}

func checkText(field, value string, maxBytes int) error {
	if len(value) > maxBytes {
		return Invalid(field, fmt.Sprintf("%s is %d bytes long, at most %d are allowed", field, len(value), maxBytes))
	}
	if !utf8.ValidString(value) {
		return Invalid(field, field+" is not valid UTF-8")
	}
	if strings.ContainsFunc(value, isControl) {
		return Invalid(field, field+" contains a control character")
	}
	return nil
}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f }
