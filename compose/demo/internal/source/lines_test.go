package source_test

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"queen.internal/compose/demo/internal/source"
)

func TestLines(t *testing.T) {
	t.Parallel()
	const text = "{\"k\": \"a\", \"n\":12345678901234567890}\r\n" +
		"\n" +
		"  {\"k\":7 , \"x\":\"\\u0000\"}\n" +
		"{\"k\":null}\n{\"other\":1}\n[1,2]\n\"word\"\n" +
		"{\"k\":{\"deep\":[1]}}\n{\"k\":\"tab\\there\"}"
	type row struct{ Partition, Payload string }
	read := func(key string) (rows []row) {
		for record, err := range source.Lines(strings.NewReader(text), key) {
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, row{record.Partition, string(record.Payload)})
		}
		return rows
	}
	want := []row{
		{"a", `{"k": "a", "n":12345678901234567890}`},
		{"7", `{"k":7 , "x":"\u0000"}`},
		{"(none)", `{"k":null}`},
		{"(none)", `{"other":1}`},
		{"(none)", `[1,2]`},
		{"(none)", `"word"`},
		{`{"deep":[1]}`, `{"k":{"deep":[1]}}`},
		{"tab\ufffdhere", `{"k":"tab\there"}`},
	}
	if diff := cmp.Diff(want, read("k")); diff != "" {
		t.Error(diff)
	}
	for i := range want {
		want[i].Partition = "(none)"
	}
	if diff := cmp.Diff(want, read("")); diff != "" {
		t.Error(diff)
	}
}

func TestLinesNamesTheBadOne(t *testing.T) {
	t.Parallel()
	var got error
	n := 0
	for _, err := range source.Lines(strings.NewReader("1\n\n{]\n2\n"), "") {
		got = err
		n++
	}
	if n != 2 || got == nil || !strings.Contains(got.Error(), "line 3") {
		t.Errorf("after %d steps error %v, want one for line 3 after 2", n, got)
	}
}

func TestLinesReportsAReadError(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk on fire")
	if err := onlyError(t, source.Lines(iotest.ErrReader(broken), "")); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}
