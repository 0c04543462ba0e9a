package schema

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Statement is one SQL statement of a file, without its semicolon.
type Statement struct {
	Text   string
	Offset int // of Text in the file, in bytes
	Line   int // of the first character of Text, counted from 1
}

// SplitError says where a file stops being SQL that can be split.
type SplitError struct {
	Line    int
	Problem string
}

func (e *SplitError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Problem) }

// Split cuts a file into its statements. A semicolon ends a statement unless it is in a quoted text ('…', E'…', "…",
// $tag$…$tag$) or in a comment (--…, or /*…*/ which nests). Comments before and between statements belong to none of
// them. Function bodies must be quoted: the BEGIN ATOMIC form, whose semicolons are bare, is refused.
func Split(src string) ([]Statement, error) {
	s := splitter{src: src}
	for s.pos < len(s.src) {
		if err := s.step(); err != nil {
			return nil, err
		}
	}
	s.finish()
	return s.out, nil
}

type splitter struct {
	src   string
	pos   int
	start int // of the current statement, meaningful while open
	end   int // after its last token
	open  bool
	last  string // the last bare word, in capitals
	out   []Statement
}

// step consumes one token.
func (s *splitter) step() error {
	rest := s.src[s.pos:]
	c, size := utf8.DecodeRuneInString(rest)
	switch {
	case strings.HasPrefix(rest, "--"):
		s.pos += until(rest, "\n")
		return nil
	case strings.HasPrefix(rest, "/*"):
		return s.comment()
	case isSpace(c):
		s.pos += size
		return nil
	case c == ';':
		s.finish()
		s.pos++
		return nil
	case c == '\'':
		return s.quoted(0, '\'', false)
	case c == '"':
		return s.quoted(0, '"', false)
	case (c == 'E' || c == 'e') && strings.HasPrefix(rest[1:], "'"):
		return s.quoted(1, '\'', true)
	case c == '$':
		if tag := dollarTag(rest); tag != "" {
			return s.dollar(tag)
		}
	case isWordStart(c):
		return s.word()
	case c >= '0' && c <= '9':
		// A number takes the letters and dollar signs that follow, so that 1$a$ opens no quote.
		s.token(wordLength(rest))
		return nil
	}
	s.token(size)
	return nil
}

// token makes the next n bytes part of the current statement.
func (s *splitter) token(n int) {
	if !s.open {
		s.open, s.start = true, s.pos
	}
	s.pos += n
	s.end = s.pos
	s.last = ""
}

func (s *splitter) finish() {
	if s.open {
		s.out = append(s.out, Statement{Text: s.src[s.start:s.end], Offset: s.start, Line: s.lineAt(s.start)})
	}
	s.open, s.last = false, ""
}

func (s *splitter) word() error {
	n := wordLength(s.src[s.pos:])
	before, word := s.last, strings.ToUpper(s.src[s.pos:s.pos+n])
	if before == "BEGIN" && word == "ATOMIC" {
		return s.problem(s.pos, "BEGIN ATOMIC bodies cannot be split, quote the body with $$")
	}
	s.token(n)
	s.last = word
	return nil
}

// quoted consumes a text in quotes that starts skip bytes ahead. A doubled quote stands for itself, and so does one after
// a backslash where escapes are on.
func (s *splitter) quoted(skip int, quote byte, escapes bool) error {
	for i := s.pos + skip + 1; i < len(s.src); i++ {
		switch {
		case escapes && s.src[i] == '\\':
			i++
		case s.src[i] != quote:
		case i+1 < len(s.src) && s.src[i+1] == quote:
			i++
		default:
			s.token(i + 1 - s.pos)
			return nil
		}
	}
	return s.problem(s.pos, fmt.Sprintf("text after %c has no end", quote))
}

func (s *splitter) dollar(tag string) error {
	body := s.src[s.pos+len(tag):]
	end := strings.Index(body, tag)
	if end < 0 {
		return s.problem(s.pos, "text after "+tag+" has no end")
	}
	s.token(len(tag) + end + len(tag))
	return nil
}

// comment consumes a block comment. It neither opens a statement nor belongs to one that ends before it.
func (s *splitter) comment() error {
	depth := 0
	for i := s.pos; i+1 < len(s.src); i++ {
		switch s.src[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
		}
		if depth == 0 {
			s.pos = i + 1
			return nil
		}
	}
	return s.problem(s.pos, "comment has no end")
}

func (s *splitter) problem(at int, text string) error {
	return &SplitError{Line: s.lineAt(at), Problem: text}
}

func (s *splitter) lineAt(offset int) int { return 1 + strings.Count(s.src[:offset], "\n") }

// dollarTag is the opening $tag$ at the start of text, empty when there is none.
func dollarTag(text string) string {
	for i, c := range text[1:] {
		switch {
		case c == '$':
			return text[:i+2]
		case isWordStart(c), i > 0 && c >= '0' && c <= '9':
		default:
			return ""
		}
	}
	return ""
}

// wordLength is how many bytes an identifier, keyword or number takes. A dollar sign inside is part of it.
func wordLength(text string) int {
	n := strings.IndexFunc(text, func(c rune) bool { return !isWordStart(c) && (c < '0' || c > '9') && c != '$' })
	if n < 0 {
		return len(text)
	}
	return n
}

func isWordStart(c rune) bool {
	return c == '_' || c >= utf8.RuneSelf || unicode.IsLetter(c)
}

// isSpace is what the server's scanner skips: ASCII blanks, nothing else of Unicode.
func isSpace(c rune) bool { return strings.ContainsRune(" \t\n\r\f\v", c) }

// until is the length of text up to its first end, or all of it.
func until(text, end string) int {
	if n := strings.Index(text, end); n >= 0 {
		return n
	}
	return len(text)
}
