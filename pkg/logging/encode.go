package logging

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// timeForm is RFC 3339 in UTC with milliseconds.
const timeForm = "2006-01-02T15:04:05.000Z"

func levelName(level slog.Level) string {
	switch {
	case level < slog.LevelDebug:
		return "TRACE"
	case level < slog.LevelInfo:
		return "DEBUG"
	case level < slog.LevelWarn:
		return "INFO"
	case level < slog.LevelError:
		return "WARN"
	default:
		return "ERROR"
	}
}

// appendHead begins a line: everything before the attributes.
func (o *output) appendHead(b []byte, r slog.Record, target string) []byte {
	at := r.Time
	if o.now != nil {
		at = o.now()
	}
	if !o.json {
		b = at.UTC().AppendFormat(b, timeForm)
		b = append(b, ' ')
		b = append(b, levelName(r.Level)...)
		b = append(b, ' ')
		b = append(b, target...)
		b = append(b, ": "...)
		return appendMessage(b, r.Message)
	}
	b = append(b, `{"timestamp":"`...)
	b = at.UTC().AppendFormat(b, timeForm)
	b = append(b, `","level":"`...)
	b = append(b, levelName(r.Level)...)
	b = append(b, `","target":`...)
	b = appendJSONString(b, target)
	b = append(b, `,"message":`...)
	return appendJSONString(b, r.Message)
}

func (o *output) appendTail(b []byte) []byte {
	if o.json {
		b = append(b, '}')
	}
	return append(b, '\n')
}

// appendAttr adds one attribute; groups become prefixes of flat keys, empty attributes vanish.
func (o *output) appendAttr(b []byte, prefix string, attr slog.Attr) []byte {
	value := attr.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		if attr.Key != "" {
			prefix += attr.Key + "."
		}
		for _, member := range value.Group() {
			b = o.appendAttr(b, prefix, member)
		}
		return b
	}
	if attr.Key == "" && value.Equal(slog.Value{}) {
		return b
	}
	key := prefix + attr.Key
	if !o.json {
		b = append(b, ' ')
		b = appendText(b, key)
		b = append(b, '=')
		return appendTextValue(b, value)
	}
	if isHeadKey(key) {
		key += "_" // a second "message" in one object would hide the first
	}
	b = append(b, ',')
	b = appendJSONString(b, key)
	b = append(b, ':')
	return appendJSONValue(b, value)
}

func isHeadKey(key string) bool {
	return key == "timestamp" || key == "level" || key == TargetKey || key == "message"
}

func appendTextValue(b []byte, value slog.Value) []byte {
	switch value.Kind() {
	case slog.KindInt64:
		return strconv.AppendInt(b, value.Int64(), 10)
	case slog.KindUint64:
		return strconv.AppendUint(b, value.Uint64(), 10)
	case slog.KindBool:
		return strconv.AppendBool(b, value.Bool())
	case slog.KindFloat64:
		return strconv.AppendFloat(b, value.Float64(), 'g', -1, 64)
	default:
		return appendText(b, plain(value))
	}
}

func appendJSONValue(b []byte, value slog.Value) []byte {
	switch value.Kind() {
	case slog.KindInt64, slog.KindUint64, slog.KindBool:
		return appendTextValue(b, value)
	case slog.KindFloat64:
		if f := value.Float64(); math.IsNaN(f) || math.IsInf(f, 0) {
			return appendJSONString(b, plain(value)) // JSON has no such numbers
		}
		return appendTextValue(b, value)
	default:
		return appendJSONString(b, plain(value))
	}
}

// plain is the text of a value that is neither number nor boolean.
func plain(value slog.Value) string {
	switch value.Kind() {
	case slog.KindString:
		return value.String()
	case slog.KindTime:
		return value.Time().UTC().Format(time.RFC3339Nano)
	case slog.KindAny:
		if err, ok := value.Any().(error); ok {
			return errorText(err)
		}
		return fmt.Sprintf("%+v", value.Any())
	default:
		return value.String()
	}
}

// errorText survives an error whose Error method panics, as that of a nil pointer in an interface does.
func errorText(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("%T(nil)", err)
		}
	}()
	return err.Error()
}

// appendText adds s, in quotes when a reader could not tell otherwise where it ends.
func appendText(b []byte, s string) []byte {
	if s == "" || strings.ContainsFunc(s, needsQuotes) {
		return strconv.AppendQuote(b, s)
	}
	return append(b, s...)
}

func needsQuotes(r rune) bool {
	return r == ' ' || r == '"' || r == '=' || r == utf8.RuneError || !unicode.IsPrint(r)
}

// appendMessage adds the message as it is, except that nothing in it can begin a new line or drive a terminal.
func appendMessage(b []byte, s string) []byte {
	for _, r := range s {
		if r != utf8.RuneError && unicode.IsPrint(r) {
			b = utf8.AppendRune(b, r)
			continue
		}
		quoted := strconv.AppendQuoteRune(nil, r)
		b = append(b, quoted[1:len(quoted)-1]...)
	}
	return b
}

func appendJSONString(b []byte, s string) []byte {
	if !strings.ContainsFunc(s, needsJSONEscape) {
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	encoded, err := json.Marshal(s)
	if err != nil { // no string makes Marshal fail
		return strconv.AppendQuote(b, s)
	}
	return append(b, encoded...)
}

func needsJSONEscape(r rune) bool {
	return r < 0x20 || r == '"' || r == '\\' || r == 0x7f || r == utf8.RuneError || r == '\u2028' || r == '\u2029'
}
