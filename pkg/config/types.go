package config

import (
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Bool is a boolean setting. Its zero value is false; a blank variable leaves it as it was.
type Bool bool

var errNotBoolean = errors.New("is not a boolean (expected true/false, 1/0, yes/no, on/off)")

// Set implements envconfig's Setter with the one boolean rule of all services.
func (b *Bool) Set(value string) error {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "":
		return nil
	case "true", "1", "yes", "on":
		*b = true
	case "false", "0", "no", "off":
		*b = false
	default:
		return errNotBoolean
	}
	return nil
}

// Int is a whole-number setting: an optional sign and digits. An empty variable leaves it as it was.
type Int int64

var (
	errNotInteger = errors.New("is not an integer")
	errIntTooLong = errors.New("is not an integer of at most 64 bits")
)

// Set implements envconfig's Setter. No blanks, unit suffixes, underscores or other bases.
func (i *Int) Set(value string) error {
	if value == "" {
		return nil
	}
	digits := strings.TrimLeft(value, "+-")
	if len(value)-len(digits) > 1 || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return errNotInteger
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return errIntTooLong
	}
	*i = Int(n)
	return nil
}

// Millis is the setting read as milliseconds.
func (i Int) Millis() time.Duration { return time.Duration(i) * time.Millisecond }

// Seconds is the setting read as seconds.
func (i Int) Seconds() time.Duration { return time.Duration(i) * time.Second }

// List is a comma separated setting; blanks around entries and empty entries are dropped.
type List []string

// Set implements envconfig's Setter. A present but empty variable clears the list.
func (l *List) Set(value string) error {
	*l = nil
	for entry := range strings.SplitSeq(value, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			*l = append(*l, entry)
		}
	}
	return nil
}

func (l List) String() string { return strings.Join(l, ",") }

// LogValue prints the list as it would stand in the environment.
func (l List) LogValue() slog.Value { return slog.StringValue(l.String()) }

// Secret is a setting that no log, error or debugger output shows. Reveal gives the value to the one who needs it.
type Secret string

// Set implements envconfig's Setter.
func (s *Secret) Set(value string) error {
	*s = Secret(value)
	return nil
}

// Reveal is the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String is the mask: whether the secret is set, and how many characters it has.
func (s Secret) String() string {
	if s == "" {
		return "<unset>"
	}
	return "<set:" + strconv.Itoa(utf8.RuneCountInString(string(s))) + " chars>"
}

// GoString masks %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue masks log attributes.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText masks JSON and every other encoding that asks for text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
