package seal

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
)

// Sizes in bytes. The nonce is the beginning of the iv: the envelope has room for more than GCM takes.
const (
	ivSize    = 16
	nonceSize = 12
	tagSize   = 16
)

// What stands around the three texts of an envelope that we write.
const (
	head   = `{"encrypted":"`
	middle = `","iv":"`
	tail   = `","authTag":"`
	end    = `"}`
)

// Outcome is what Open made of a payload.
type Outcome int

// The outcomes.
const (
	Plain    Outcome = iota // no envelope: it was never sealed
	Opened                  // it was an envelope, this is what it held
	Unopened                // an envelope that no key opens, as it is
)

// Seal encrypts payload under a fresh nonce and returns the envelope. It needs a key, see CanSeal. Nonces are random, so
// one key is good for about four thousand million payloads.
func (k *Keys) Seal(payload []byte) []byte {
	var iv [ivSize]byte
	rand.Read(iv[:]) // never fails
	sealed := k.current.Seal(make([]byte, 0, len(payload)+tagSize), iv[:nonceSize], payload, nil)
	text, tag := sealed[:len(payload)], sealed[len(payload):]

	base := base64.StdEncoding
	size := len(head) + base.EncodedLen(len(text)) + len(middle) + base.EncodedLen(ivSize) + len(tail) + base.EncodedLen(tagSize) + len(end)
	out := make([]byte, 0, size)
	out = base.AppendEncode(append(out, head...), text)
	out = base.AppendEncode(append(out, middle...), iv[:])
	out = base.AppendEncode(append(out, tail...), tag)
	return append(out, end...)
}

// Open returns what an envelope holds, and every other payload, or an envelope that no key opens, as it is. payload is not
// written to; what was opened is a copy. An envelope inside an envelope is what was sealed, and stays closed.
func (k *Keys) Open(payload []byte) ([]byte, Outcome) {
	e, ok := decode(payload)
	if !ok {
		return payload, Plain
	}
	if k == nil {
		return payload, Unopened
	}
	for _, aead := range k.all {
		opened, err := aead.Open(make([]byte, 0, len(e.sealed)-tagSize), e.iv[:nonceSize], e.sealed, nil)
		// Payloads are spliced into answers, so what is no JSON must not get there, whoever sealed it.
		if err == nil && json.Valid(opened) {
			return opened, Opened
		}
	}
	return payload, Unopened
}
