package source

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// noKey is the partition of a line that lacks the partition key.
const noKey = "(none)"

// Lines yields every line of in that is not blank, byte for byte as its payload. The partition is the value of the
// top-level field partitionKey: a string's text, another value's JSON. Without a partitionKey all lines share one
// partition. A line that is not JSON ends the reading with an error that names it.
func Lines(in io.Reader, partitionKey string) Records {
	return func(yield func(Record, error) bool) {
		reader := bufio.NewReader(in)
		for number := 1; ; number++ {
			line, err := reader.ReadBytes('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				yield(Record{}, fmt.Errorf("read line %d: %w", number, err))
				return
			}
			if payload := bytes.TrimSpace(line); len(payload) > 0 {
				if !json.Valid(payload) {
					yield(Record{}, fmt.Errorf("line %d is not JSON", number))
					return
				}
				if !yield(Record{Partition: keyOf(payload, partitionKey), Payload: payload}, nil) {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
}

func keyOf(payload []byte, key string) string {
	if key == "" {
		return noKey
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(payload, &fields) != nil {
		return noKey // not an object
	}
	value, ok := fields[key]
	if !ok || string(value) == "null" {
		return noKey
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return name(text)
	}
	return name(string(value))
}
