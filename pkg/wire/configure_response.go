package wire

import (
	"errors"
	"strconv"

	"github.com/google/uuid"

	"queen.internal/pkg/queue"
)

// Configured is the outcome of a configure.
type Configured struct {
	ID      uuid.UUID
	Queue   string
	Options queue.Options // in force; none is nil
}

// AppendConfigured appends the body of a configure's answer. It tells every option, whether or not the request spoke of
// it: clients compare.
func AppendConfigured(dst []byte, c *Configured) []byte {
	dst = append(dst, `{"configured":true,"queueId":"`...)
	dst = append(dst, c.ID.String()...)
	dst = append(dst, `","partitionId":null,"queue":`...)
	dst = AppendString(dst, c.Queue)
	for _, label := range labelKeys {
		dst = appendOption(append(dst, ','), label.key, label.at(&c.Options))
	}
	dst = append(dst, `,"storage":"segments","options":{`...)
	for i, option := range optionKeys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendOption(dst, option.key, option.at(&c.Options))
	}
	return append(dst, '}', '}')
}

// appendOption appends a member of the answer from the field of an option.
func appendOption(dst []byte, key string, at any) []byte {
	dst = append(dst, '"')
	dst = append(dst, key...)
	dst = append(dst, '"', ':')
	switch at := at.(type) {
	case **int32:
		dst = strconv.AppendInt(dst, int64(**at), 10)
	case **bool:
		dst = strconv.AppendBool(dst, **at)
	case **string:
		dst = AppendString(dst, **at)
	}
	return dst
}

// AppendConfigureFault appends the body that answers a bad value of one of the sink options; only they have the second
// key. It is false, and dst unchanged, for any other error.
func AppendConfigureFault(dst []byte, err error) ([]byte, bool) {
	var known *queue.Error
	if !errors.As(err, &known) || known.Field != "retentionSinkHold" && known.Field != "retentionSinkHoldMaxSeconds" {
		return dst, false
	}
	dst = append(dst, `{"error":`...)
	dst = AppendString(dst, known.Message)
	return append(dst, `,"invalid":true}`...), true
}
