package testkit

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func encode(kind byte, body string) []byte {
	raw := []byte{kind, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(raw[1:], uint32(len(body)+4))
	return append(raw, body...)
}

func TestMessagesAreFramed(t *testing.T) {
	t.Parallel()
	stream := append(encode('Q', "SELECT 1\x00"), encode('S', "")...)
	r := bufio.NewReader(bytes.NewReader(stream))
	for _, want := range []byte{'Q', 'S'} {
		m, err := readMessage(r)
		if err != nil || m.kind != want {
			t.Errorf("%q, %v", m.kind, err)
		}
	}
	for name, broken := range map[string][]byte{
		"shorter than itself": {'Q', 0, 0, 0, 3}, "above the limit": {'Q', 0x7f, 0, 0, 0}, "cut": encode('Q', "SELECT 1")[:8],
	} {
		if m, err := readMessage(bufio.NewReader(bytes.NewReader(broken))); err == nil {
			t.Errorf("%s: %q", name, m.raw)
		}
	}
	if _, _, err := readFirst(bufio.NewReader(bytes.NewReader([]byte{0, 0, 0, 4}))); err == nil {
		t.Error("a first message without a code")
	}
}

func TestExchangeKnowsWhatItExecutes(t *testing.T) {
	t.Parallel()
	s := session{prepared: map[string]string{}, portals: map[string]string{}}
	bind := encode('B', "\x00named\x00\x00\x00\x00\x00\x00\x00")
	for _, step := range []struct {
		name     string
		messages [][]byte
		sql      []string
		answered bool
	}{
		{"only prepared", [][]byte{encode('P', "named\x00SELECT 1\x00\x00\x00"), encode('D', "Snamed\x00"), encode('S', "")}, nil, true},
		{"prepared before", [][]byte{bind, encode('E', "\x00\x00\x00\x00\x00"), encode('S', "")}, []string{"SELECT 1"}, true},
		{"without a name", [][]byte{
			encode('P', "\x00SELECT 2\x00\x00\x00"), encode('B', "\x00\x00\x00\x00\x00\x00\x00\x00"), encode('E', "\x00\x00\x00\x00\x00"),
			bind, encode('E', "\x00\x00\x00\x00\x00"), encode('S', ""),
		}, []string{"SELECT 2", "SELECT 1"}, true},
		{"simple", [][]byte{encode('Q', "SELECT 3\x00")}, []string{"SELECT 3"}, true},
		{"farewell", [][]byte{encode('X', "")}, nil, false},
	} {
		ex := &exchange{}
		for i, raw := range step.messages {
			if last := s.add(ex, message{kind: raw[0], raw: raw}); last != (i == len(step.messages)-1) {
				t.Errorf("%s: message %d ends the exchange: %v", step.name, i, last)
			}
		}
		if diff := cmp.Diff(step.sql, ex.sql); diff != "" || ex.answered != step.answered {
			t.Errorf("%s: answered %v, %s", step.name, ex.answered, diff)
		}
	}
}

func TestAnswerKeepsHowItEnded(t *testing.T) {
	t.Parallel()
	var a Answer
	for _, raw := range [][]byte{
		encode('E', "SERROR\x00VERROR\x00C23505\x00Mduplicate key\x00\x00"), encode('C', "INSERT 0 3\x00"), encode('Z', "T"),
	} {
		a.add(message{kind: raw[0], raw: raw})
	}
	if diff := cmp.Diff(Answer{Tag: "INSERT 0 3", SQLState: "23505", Status: 'T'}, a); diff != "" {
		t.Error(diff)
	}
}
