// Package source reads the demonstration's input: the history of a git repository, or a file of JSON lines. Both are read
// as a stream, so that neither has to fit into memory, and in an order that is the same every time.
package source

import (
	"encoding/json"
	"iter"
	"strings"
	"unicode"
)

// Record is one message to be.
type Record struct {
	Partition string
	Payload   json.RawMessage
}

// Records yields records in order. An error is the last thing it yields.
type Records = iter.Seq2[Record, error]

// name makes text fit for a partition's name, which must be UTF-8 without control characters.
func name(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(text, string(unicode.ReplacementChar)))
}
