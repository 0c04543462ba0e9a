package wire

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"queen.internal/pkg/queue"
)

// ConfigureRequest is the body of a configure.
type ConfigureRequest struct {
	Queue  string
	Change queue.Options // settled; null is the option's default already
}

// optionKeys are the options in the order in which the answer lists them. at is the field of an option: a **int32, a
// **bool or a **string. Namespace and task are not among them: they have rules of their own, and the answer has them
// elsewhere.
var optionKeys = []struct {
	key string
	at  func(o *queue.Options) any
}{
	{"priority", func(o *queue.Options) any { return &o.Priority }},
	{"leaseTime", func(o *queue.Options) any { return &o.LeaseSeconds }},
	{"retryLimit", func(o *queue.Options) any { return &o.RetryLimit }},
	{"retryDelay", func(o *queue.Options) any { return &o.RetryDelayMillis }},
	{"maxSize", func(o *queue.Options) any { return &o.MaxSize }},
	{"ttl", func(o *queue.Options) any { return &o.TTLSeconds }},
	{"deadLetterQueue", func(o *queue.Options) any { return &o.DeadLetterQueue }},
	{"dlqAfterMaxRetries", func(o *queue.Options) any { return &o.DeadLetterAfterRetries }},
	{"delayedProcessing", func(o *queue.Options) any { return &o.DelayedProcessingSeconds }},
	{"windowBuffer", func(o *queue.Options) any { return &o.WindowBufferSeconds }},
	{"retentionSeconds", func(o *queue.Options) any { return &o.RetentionSeconds }},
	{"completedRetentionSeconds", func(o *queue.Options) any { return &o.CompletedRetentionSeconds }},
	{"retentionEnabled", func(o *queue.Options) any { return &o.RetentionEnabled }},
	{"encryptionEnabled", func(o *queue.Options) any { return &o.EncryptionEnabled }},
	{"maxWaitTimeSeconds", func(o *queue.Options) any { return &o.MaxWaitSeconds }},
	{"minPopWaitTime", func(o *queue.Options) any { return &o.MinPopWaitMillis }},
	{"dedupWindowSeconds", func(o *queue.Options) any { return &o.DedupWindowSeconds }},
	{"retentionSinkHold", func(o *queue.Options) any { return &o.RetentionSinkHold }},
	{"retentionSinkHoldMaxSeconds", func(o *queue.Options) any { return &o.RetentionSinkHoldMaxSeconds }},
	{"deliveryLimit", func(o *queue.Options) any { return &o.DeliveryLimit }},
	{"redeliveryDelaySeconds", func(o *queue.Options) any { return &o.RedeliveryDelaySeconds }},
	{"spool", func(o *queue.Options) any { return &o.Spool }},
}

// labelKeys are the two options that may also stand beside the options object.
var labelKeys = []struct {
	key string
	at  func(o *queue.Options) **string
}{
	{"namespace", func(o *queue.Options) **string { return &o.Namespace }},
	{"task", func(o *queue.Options) **string { return &o.Task }},
}

// ScanConfigure reads the body of a configure. An option that is absent is nil in the change, null is its default, and
// with mode "replace" the absent ones have their defaults, too. A body that is not JSON, a queue that is no string and
// a value that an option cannot take are errors of kind Invalid that name the field. Unknown keys are ignored, and of a
// repeated key the last counts.
func ScanConfigure(body []byte) (ConfigureRequest, error) {
	if err := checkUTF8(body); err != nil {
		return ConfigureRequest{}, err
	}
	top, err := members(body, configureKeys)
	if err != nil {
		return ConfigureRequest{}, err
	}
	name, err := queueName(top["queue"])
	if err != nil {
		return ConfigureRequest{}, err
	}
	defaults := queue.DefaultOptions()
	change, err := changeBase(top["mode"], &defaults)
	if err != nil {
		return ConfigureRequest{}, err
	}
	if err := readOptions(top, &change, &defaults); err != nil {
		return ConfigureRequest{}, err
	}
	if err := change.Settle(); err != nil {
		return ConfigureRequest{}, err
	}
	return ConfigureRequest{Queue: name, Change: change}, nil
}

// readOptions takes the options from their object, or from the top level when there is no such object.
func readOptions(top map[string][]byte, change, defaults *queue.Options) (err error) {
	bag, nested := top, false
	if raw := top["options"]; len(raw) > 0 && raw[0] == '{' {
		if bag, err = members(raw, configureKeys); err != nil {
			return err
		}
		nested = true
	}
	for _, option := range optionKeys {
		if raw, given := bag[option.key]; given {
			if err := readOption(option.key, raw, option.at(change), option.at(defaults)); err != nil {
				return err
			}
		}
	}
	for _, label := range labelKeys {
		if raw, given := bag[label.key]; given && nested {
			err = readOption(label.key, raw, label.at(change), label.at(defaults))
		} else {
			err = topLabel(label.key, top[label.key], label.at(change))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func queueName(raw []byte) (string, error) {
	const field = "queue"
	if len(raw) == 0 || raw[0] != '"' {
		return "", queue.Invalid(field, "queue is required")
	}
	name, err := textValue(field, raw)
	if err != nil {
		return "", err
	}
	return name, queue.CheckName(field, name)
}

// changeBase is what the options of the request are laid over.
func changeBase(raw []byte, defaults *queue.Options) (queue.Options, error) {
	if isNull(raw) {
		return queue.Options{}, nil
	}
	mode := ""
	if raw[0] == '"' {
		text, ok := unescape(nil, raw[1:len(raw)-1])
		if ok {
			mode = string(text)
		}
	}
	switch mode {
	case "merge":
		return queue.Options{}, nil
	case "replace":
		return *defaults, nil
	}
	const shown = 50 // bytes of a value that an error repeats
	got := string(raw)
	if len(got) > shown {
		got = strings.ToValidUTF8(got[:shown], "") + "…"
	}
	return queue.Options{}, queue.Invalid("mode", `mode must be "merge" or "replace", got `+got)
}

// topLabel takes a label that stands beside the options: only text that says something counts there, since clients send
// null and the empty string without meaning anything by it.
func topLabel(key string, raw []byte, at **string) error {
	if len(raw) == 0 || raw[0] != '"' {
		return nil
	}
	text, err := textValue(key, raw)
	if err == nil && text != "" {
		*at = &text
	}
	return err
}

// readOption stores the value raw in the field at, or the default's value when raw is null.
func readOption(key string, raw []byte, at, fallback any) (err error) {
	null := isNull(raw)
	switch at := at.(type) {
	case **int32:
		if *at = *fallback.(**int32); !null {
			*at, err = integerValue(key, raw)
		}
	case **bool:
		if *at = *fallback.(**bool); !null {
			*at, err = booleanValue(key, raw)
		}
	case **string:
		if *at = *fallback.(**string); !null {
			var text string
			text, err = textValue(key, raw)
			*at = &text
		}
	}
	return err
}

func isNull(raw []byte) bool { return len(raw) == 0 || raw[0] == 'n' }

// scalar is the text of a value that may be written with or without quotes, without the blanks around it.
func scalar(raw []byte) string {
	if raw[0] == '"' {
		text, _ := unescape(nil, raw[1:len(raw)-1]) // half a surrogate pair is nobody's number: nil
		return strings.TrimSpace(string(text))
	}
	return string(raw)
}

func integerValue(key string, raw []byte) (*int32, error) {
	n, err := strconv.ParseInt(scalar(raw), 10, 32)
	if errors.Is(err, strconv.ErrRange) {
		return nil, queue.Invalid(key, fmt.Sprintf("%s is not between %d and %d", key, math.MinInt32, math.MaxInt32))
	}
	if err != nil {
		return nil, queue.Invalid(key, key+" is not an integer")
	}
	return new(int32(n)), nil
}

// booleanValue also takes the words and digits that the original's database took for a boolean.
func booleanValue(key string, raw []byte) (*bool, error) {
	switch strings.ToLower(scalar(raw)) {
	case "true", "t", "yes", "y", "on", "1":
		return new(true), nil
	case "false", "f", "no", "n", "off", "0":
		return new(false), nil
	}
	return nil, queue.Invalid(key, key+" is neither true nor false")
}

func textValue(key string, raw []byte) (string, error) {
	if raw[0] != '"' {
		return "", queue.Invalid(key, key+" is not a string")
	}
	text, ok := unescape(nil, raw[1:len(raw)-1])
	if !ok {
		return "", queue.Invalid(key, key+" contains half of a surrogate pair")
	}
	return string(text), nil
}
