package seal

import "encoding/base64"

// envelope is what stands in an envelope, decoded.
type envelope struct {
	sealed []byte // cipher text and tag
	iv     [ivSize]byte
}

// texts are the members of an envelope, in base64; nil is one that did not appear.
type texts struct{ encrypted, iv, authTag []byte }

// strict refuses what two spellings of the same bytes would allow.
var strict = base64.StdEncoding.Strict()

// smallest is the length of an envelope around one byte.
var smallest = len(head) + strict.EncodedLen(1) + len(middle) + strict.EncodedLen(ivSize) + len(tail) + strict.EncodedLen(tagSize) + len(end)

// IsEnvelope says whether payload has the shape of an envelope: a JSON object with the three members and no other, each
// a string of padded base64 without escapes, iv and tag of their sizes, in any order and with any blanks. What a
// producer wrote in that shape is one as well.
func IsEnvelope(payload []byte) bool {
	_, ok := decode(payload)
	return ok
}

func decode(payload []byte) (e envelope, ok bool) {
	t, ok := scan(payload)
	if !ok || len(t.iv) != strict.EncodedLen(ivSize) || len(t.authTag) != strict.EncodedLen(tagSize) || len(t.encrypted) == 0 {
		return e, false
	}
	var iv, tag [ivSize + 2]byte // as many as the decoder may claim for 24 characters
	if n, err := strict.Decode(iv[:], t.iv); err != nil || n != ivSize {
		return e, false
	}
	if n, err := strict.Decode(tag[:], t.authTag); err != nil || n != tagSize {
		return e, false
	}
	e.sealed = make([]byte, strict.DecodedLen(len(t.encrypted)), strict.DecodedLen(len(t.encrypted))+tagSize)
	n, err := strict.Decode(e.sealed, t.encrypted)
	if err != nil {
		return e, false
	}
	e.sealed = append(e.sealed[:n], tag[:tagSize]...)
	copy(e.iv[:], iv[:])
	return e, true
}

// scan finds the three members. It looks at every payload that is delivered, so it gives up at the first byte that no
// envelope has there.
func scan(payload []byte) (t texts, ok bool) {
	if len(payload) < smallest {
		return t, false
	}
	s := scanner{payload}
	if !s.take('{') {
		return t, false
	}
	for member := range 3 {
		if member > 0 && !s.take(',') {
			return t, false
		}
		name, ok := s.text()
		if !ok || !s.take(':') {
			return t, false
		}
		var at *[]byte
		switch string(name) {
		case "encrypted":
			at = &t.encrypted
		case "iv":
			at = &t.iv
		case "authTag":
			at = &t.authTag
		}
		if at == nil || *at != nil {
			return t, false
		}
		if *at, ok = s.text(); !ok {
			return t, false
		}
	}
	if !s.take('}') {
		return t, false
	}
	s.skipBlanks()
	return t, len(s.rest) == 0
}

type scanner struct{ rest []byte }

func (s *scanner) skipBlanks() {
	for len(s.rest) > 0 && (s.rest[0] == ' ' || s.rest[0] == '\n' || s.rest[0] == '\t' || s.rest[0] == '\r') {
		s.rest = s.rest[1:]
	}
}

// take steps over blanks and then c.
func (s *scanner) take(c byte) bool {
	s.skipBlanks()
	if len(s.rest) == 0 || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// text steps over a string that holds nothing but characters of base64, and returns it without the quotes; never nil
// when ok.
func (s *scanner) text() (text []byte, ok bool) {
	if !s.take('"') {
		return nil, false
	}
	for i, c := range s.rest {
		switch {
		case c == '"':
			text, s.rest = s.rest[:i], s.rest[i+1:]
			return text, true
		case c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9', c == '+', c == '/', c == '=':
		default:
			return nil, false
		}
	}
	return nil, false
}
