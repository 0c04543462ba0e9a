package wire

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendString appends s to dst as a JSON string, quotes included. It escapes what JSON demands and nothing else; bytes
// that are not UTF-8 become U+FFFD, so the result is always valid JSON.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0 // of the run that needs no change
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[start:i]...), `\ufffd`...)
				start = i + 1
			}
			i += size
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscape(dst, c)
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// unescape is the text of a JSON string that the scanner has accepted, given without its quotes. Without a backslash
// that is raw itself; otherwise the text is appended to buf. It is false when an escape is one half of a surrogate
// pair: such a string has no UTF-8 form, so it cannot be a name or an identifier.
func unescape(buf, raw []byte) ([]byte, bool) {
	next := bytes.IndexByte(raw, '\\')
	if next < 0 {
		return raw, true
	}
	for next >= 0 {
		buf = append(buf, raw[:next]...)
		c := raw[next+1]
		raw = raw[next+2:]
		if c != 'u' {
			buf = append(buf, escapedByte(c))
		} else {
			r := hex4(raw)
			raw = raw[4:]
			if utf16.IsSurrogate(r) {
				if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
					return nil, false
				}
				if r = utf16.DecodeRune(r, hex4(raw[2:])); r == utf8.RuneError {
					return nil, false
				}
				raw = raw[6:]
			}
			buf = utf8.AppendRune(buf, r)
		}
		next = bytes.IndexByte(raw, '\\')
	}
	return append(buf, raw...), true
}

func escapedByte(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c // quote, backslash, slash
}

// hex4 is the value of four hexadecimal digits that the scanner has accepted.
func hex4(digits []byte) rune {
	var r rune
	for _, c := range digits[:4] {
		switch {
		case c <= '9':
			c -= '0'
		default:
			c = c&^0x20 - 'A' + 10
		}
		r = r<<4 | rune(c)
	}
	return r
}
