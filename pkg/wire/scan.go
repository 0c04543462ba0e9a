package wire

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may nest in a request body, the body itself included. No message needs more,
// and a bound keeps a body of brackets from becoming a stack of a million frames here and in every client that reads
// the message back.
const MaxDepth = 1000

// scanner moves over one JSON text and says whether it is valid; it builds nothing. The first fault stops it: every
// method is false from then on, and reason and pos say what was wrong where.
type scanner struct {
	data   []byte
	pos    int
	reason string
}

func (s *scanner) fail(reason string) bool {
	if s.reason == "" {
		s.reason = reason
	}
	return false
}

// unexpected faults the byte at pos, or the end of the text.
func (s *scanner) unexpected(wanted string) bool {
	if s.pos >= len(s.data) {
		return s.fail("the JSON ends where " + wanted + " should follow")
	}
	found, _ := utf8.DecodeRune(s.data[s.pos:])
	return s.fail("found " + strconv.QuoteRune(found) + " where " + wanted + " should be")
}

// blanks moves over white space and returns the byte after it, 0 at the end of the text.
func (s *scanner) blanks() byte {
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c
		}
		s.pos++
	}
	return 0
}

// value moves over one value whose containers nest from depth on.
func (s *scanner) value(depth int) bool {
	switch c := s.blanks(); c {
	case '"':
		return s.text()
	case '{':
		return s.object(depth)
	case '[':
		return s.array(depth)
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		if c == '-' || c >= '0' && c <= '9' {
			return s.number()
		}
		return s.unexpected("a value")
	}
}

func (s *scanner) object(depth int) bool {
	for more := s.open(depth) && s.first('}'); more; more = s.next('}') {
		if _, ok := s.key(); !ok || !s.value(depth+1) {
			return false
		}
	}
	return s.reason == ""
}

func (s *scanner) array(depth int) bool {
	for more := s.open(depth) && s.first(']'); more; more = s.next(']') {
		if !s.value(depth + 1) {
			return false
		}
	}
	return s.reason == ""
}

// open moves into the container at pos, which has depth containers around it.
func (s *scanner) open(depth int) bool {
	if depth >= MaxDepth {
		return s.fail("arrays and objects nest deeper than " + strconv.Itoa(MaxDepth))
	}
	s.pos++
	return true
}

// first says whether an opened container has an element, and leaves an empty one.
func (s *scanner) first(end byte) bool {
	if s.blanks() == end {
		s.pos++
		return false
	}
	return true
}

// next says whether another element follows, and leaves the container when none does.
func (s *scanner) next(end byte) bool {
	switch s.blanks() {
	case ',':
		s.pos++
		return true
	case end:
		s.pos++
		return false
	}
	return s.unexpected("',' or '" + string(rune(end)) + "'")
}

// key moves over a member's name and colon and returns the name as it is written, without quotes.
func (s *scanner) key() ([]byte, bool) {
	if s.blanks() != '"' {
		return nil, s.unexpected("a quoted key")
	}
	start := s.pos + 1
	if !s.text() {
		return nil, false
	}
	name := s.data[start : s.pos-1]
	if s.blanks() != ':' {
		return nil, s.unexpected("':'")
	}
	s.pos++
	return name, true
}

func (s *scanner) literal(word string) bool {
	for i := range len(word) {
		if s.pos >= len(s.data) || s.data[s.pos] != word[i] {
			return s.unexpected(word)
		}
		s.pos++
	}
	return true
}

func (s *scanner) number() bool {
	if s.data[s.pos] == '-' {
		s.pos++
	}
	switch {
	case s.at('0'):
		s.pos++
	case !s.digits():
		return false
	}
	if s.at('.') {
		s.pos++
		if !s.digits() {
			return false
		}
	}
	if s.at('e') || s.at('E') {
		s.pos++
		if s.at('+') || s.at('-') {
			s.pos++
		}
		return s.digits()
	}
	return true
}

func (s *scanner) at(c byte) bool { return s.pos < len(s.data) && s.data[s.pos] == c }

// digits moves over at least one digit.
func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos]-'0' <= 9 {
		s.pos++
	}
	if s.pos == start {
		return s.unexpected("a digit")
	}
	return true
}

// text moves over a string that begins at pos. That its bytes are UTF-8 was checked for the whole text at once.
func (s *scanner) text() bool {
	s.pos++
	for {
		s.ordinary()
		if s.pos >= len(s.data) {
			return s.unexpected("the end of a string")
		}
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return true
		case c == '\\':
			if !s.escape() {
				return false
			}
		case c < ' ':
			return s.fail("a string contains an unescaped control character")
		default:
			s.pos++
		}
	}
}

// ordinary moves over string bytes that mean themselves, eight at a time: a lane of the words below has its top bit set
// when its byte is under 0x20, a quote or a backslash. Borrows may set it falsely, but only above a lane that is true.
func (s *scanner) ordinary() {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for s.pos+8 <= len(s.data) {
		w := binary.LittleEndian.Uint64(s.data[s.pos:])
		quote, slash := w^ones*'"', w^ones*'\\'
		stop := ((w-ones*' ')&^w | (quote-ones)&^quote | (slash-ones)&^slash) & tops
		if stop != 0 {
			s.pos += bits.TrailingZeros64(stop) / 8
			return
		}
		s.pos += 8
	}
}

func (s *scanner) escape() bool {
	s.pos++
	if s.pos >= len(s.data) {
		return s.unexpected("the rest of an escape")
	}
	switch s.data[s.pos] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos++
		return true
	case 'u':
		s.pos++
		for range 4 {
			if s.pos >= len(s.data) || !isHex(s.data[s.pos]) {
				return s.unexpected("a hexadecimal digit")
			}
			s.pos++
		}
		return true
	}
	return s.unexpected("an escape")
}

func isHex(c byte) bool {
	return c-'0' <= 9 || c|0x20 >= 'a' && c|0x20 <= 'f'
}
