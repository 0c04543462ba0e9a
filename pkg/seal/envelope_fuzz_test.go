package seal

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
)

// FuzzIsEnvelope compares the detector with the standard decoder: both take the same payloads for envelopes.
func FuzzIsEnvelope(f *testing.F) {
	f.Add([]byte(foreign))
	f.Fuzz(func(t *testing.T, payload []byte) {
		before := bytes.Clone(payload)
		got, want := IsEnvelope(payload), looksSealed(payload)
		if got != want {
			t.Fatalf("IsEnvelope is %v, want %v", got, want)
		}
		opened, outcome := keys(t, keyA).Open(payload)
		if (outcome == Plain) == want || outcome != Opened && !bytes.Equal(opened, payload) || outcome == Opened && !json.Valid(opened) {
			t.Fatalf("outcome %d with %s", outcome, opened)
		}
		if !bytes.Equal(before, payload) {
			t.Fatal("the payload was written to")
		}
	})
}

// looksSealed is IsEnvelope by way of encoding/json. An object that is written in one of the six orders of its three
// members, blanks aside, has neither other members, nor one twice, nor escapes.
func looksSealed(payload []byte) bool {
	var members map[string]string
	var compact bytes.Buffer
	if json.Unmarshal(payload, &members) != nil || len(members) != 3 || json.Compact(&compact, payload) != nil {
		return false
	}
	for name, size := range map[string]int{"encrypted": -1, "iv": ivSize, "authTag": tagSize} {
		text, there := members[name]
		raw, err := base64.StdEncoding.Strict().DecodeString(text)
		if !there || err != nil || len(raw) == 0 || size >= 0 && len(raw) != size || bytes.ContainsAny([]byte(text), "\r\n") {
			return false
		}
	}
	for _, o := range [][3]string{
		{"encrypted", "iv", "authTag"},
		{"encrypted", "authTag", "iv"},
		{"iv", "encrypted", "authTag"},
		{"iv", "authTag", "encrypted"},
		{"authTag", "encrypted", "iv"},
		{"authTag", "iv", "encrypted"},
	} {
		if compact.String() == fmt.Sprintf(`{"%s":"%s","%s":"%s","%s":"%s"}`, o[0], members[o[0]], o[1], members[o[1]], o[2], members[o[2]]) {
			return true
		}
	}
	return false
}
