package wire

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

func FuzzAppendString(f *testing.F) {
	for _, seed := range []string{"", "plain", "a\"b\\c/d", "\x00\x1f\x7f\n\r\t\b", "é😀\u2028", "\xff\xc3(\xed\xa0\x80", "<&>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		encoded := AppendString([]byte("before"), s)[len("before"):]
		if !utf8.Valid(encoded) {
			t.Fatalf("%q is not UTF-8", encoded)
		}
		var back string
		if err := json.Unmarshal(encoded, &back); err != nil {
			t.Fatalf("%q: %v", encoded, err)
		}
		want := ""
		for _, r := range s { // ranging replaces bad bytes one by one
			want += string(r)
		}
		if back != want {
			t.Fatalf("%q came back as %q", s, back)
		}
		text, ok := unescape(nil, encoded[1:len(encoded)-1])
		if !ok || string(text) != want {
			t.Fatalf("%q unescapes to %q", encoded, text)
		}
	})
}

func TestAppendString_EscapesNoMoreThanItMust(t *testing.T) {
	t.Parallel()
	got := string(AppendString(nil, "a/b <&> é 😀 \u2028 \x7f \" \\ \n\r\t \x00 \xff"))
	if want := "\"a/b <&> é 😀 \u2028 \x7f \\\" \\\\ \\n\\r\\t \\u0000 \\ufffd\""; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
