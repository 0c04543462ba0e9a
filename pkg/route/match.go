package route

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Verdict is what a matcher says about a method and a path.
type Verdict int

// The verdicts.
const (
	// Unknown: no row has this path.
	Unknown Verdict = iota
	// Found: Match.Row is the row.
	Found
	// WrongVerb: rows have this path, none has this method; Match.Allow lists theirs.
	WrongVerb
	// Refused: the path means different things to those who decode it and those who do not, so nobody may forward it.
	Refused
)

func (v Verdict) String() string {
	return [...]string{"unknown", "found", "wrong verb", "refused"}[v]
}

// Match is the answer of a matcher.
type Match struct {
	Verdict Verdict
	Row     Row      // when Found
	Allow   []string // when WrongVerb: the methods the path has, sorted; shared, do not change
}

// Matcher finds rows by method and raw path. It is immutable and safe for concurrent use.
type Matcher struct {
	root node
}

// node is one segment of the tree of paths.
type node struct {
	literals map[string]*node
	param    *node
	rows     map[string]Row // by method; nil inside a path
	allow    []string
}

// NewMatcher builds a matcher of rows. Two rows with the same method and the same shape of path are an error, and so is
// a path that does not begin with a slash.
func NewMatcher(rows []Row) (*Matcher, error) {
	m := &Matcher{}
	for _, row := range rows {
		if err := m.add(row); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Matcher) add(row Row) error {
	rest, ok := strings.CutPrefix(row.Path, "/")
	if !ok {
		return fmt.Errorf("route %s: path %q does not begin with a slash", row.Name, row.Path)
	}
	at := &m.root
	for segment := range strings.SplitSeq(rest, "/") {
		at = at.child(segment)
	}
	if other, taken := at.rows[row.Method]; taken {
		return fmt.Errorf("route %s: %s %s is the path of route %s already", row.Name, row.Method, row.Path, other.Name)
	}
	if at.rows == nil {
		at.rows = make(map[string]Row, 1)
	}
	at.rows[row.Method] = row
	at.allow = append(at.allow, row.Method)
	slices.Sort(at.allow)
	return nil
}

func (n *node) child(segment string) *node {
	if strings.HasPrefix(segment, ":") {
		if n.param == nil {
			n.param = &node{}
		}
		return n.param
	}
	next := n.literals[segment]
	if next == nil {
		next = &node{}
		if n.literals == nil {
			n.literals = make(map[string]*node)
		}
		n.literals[segment] = next
	}
	return next
}

// Classify says which row serves method on rawPath, the path as it stood in the request line: not decoded, not
// cleaned, without the query. It compares bytes and nothing else, so whoever forwards the same bytes forwards what
// was classified.
//
// A name segment takes any non-empty text, encoded slashes included; literal segments take only themselves. Dot
// segments, also spelled %2e, are refused everywhere. Encoded slashes, and backslashes in either spelling, are refused
// wherever no name segment takes them.
func (m *Matcher) Classify(method, rawPath string) Match {
	rest, ok := strings.CutPrefix(rawPath, "/")
	if !ok || hasDotSegment(rest) {
		return Match{Verdict: Refused}
	}
	if leaf := m.root.find(rest); leaf != nil {
		if row, ok := leaf.rows[method]; ok {
			return Match{Verdict: Found, Row: row}
		}
		return Match{Verdict: WrongVerb, Allow: leaf.allow}
	}
	if hasHiddenSlash(rest) {
		return Match{Verdict: Refused}
	}
	return Match{Verdict: Unknown}
}

// find walks rest, literal segments before name segments, and goes back to a name where a literal leads nowhere.
func (n *node) find(rest string) *node {
	segment, rest, more := strings.Cut(rest, "/")
	if next := n.literals[segment]; next != nil {
		if leaf := next.enter(rest, more); leaf != nil {
			return leaf
		}
	}
	if n.param != nil && segment != "" {
		return n.param.enter(rest, more)
	}
	return nil
}

func (n *node) enter(rest string, more bool) *node {
	if more {
		return n.find(rest)
	}
	if n.rows == nil {
		return nil
	}
	return n
}

// hasDotSegment finds "." and ".." among the segments of rest.
func hasDotSegment(rest string) bool {
	for segment := range strings.SplitSeq(rest, "/") {
		if isDotSegment(segment) {
			return true
		}
	}
	return false
}

// isDotSegment accepts percent-encoded dots too, because clients and proxies resolve them like plain ones.
func isDotSegment(segment string) bool {
	dots := 0
	for ; segment != ""; dots++ {
		switch {
		case segment[0] == '.':
			segment = segment[1:]
		case hasEscape(segment, '2', 'e'):
			segment = segment[3:]
		default:
			return false
		}
	}
	return dots == 1 || dots == 2
}

// hasHiddenSlash finds what a decoding reader could take for a separator: %2f, %5c and the backslash.
func hasHiddenSlash(rest string) bool {
	for i := range len(rest) {
		switch rest[i] {
		case '\\':
			return true
		case '%':
			if hasEscape(rest[i:], '2', 'f') || hasEscape(rest[i:], '5', 'c') {
				return true
			}
		}
	}
	return false
}

// hasEscape says whether text begins with the percent escape of the two hexadecimal digits, in either case; low is the
// lower-case spelling of the second.
func hasEscape(text string, high, low byte) bool {
	return len(text) >= 3 && text[0] == '%' && text[1] == high && text[2]|0x20 == low
}

var tableMatcher = sync.OnceValue(func() *Matcher {
	m, err := NewMatcher(Table)
	if err != nil {
		panic(err) // a fault in the table, found by the first test that looks
	}
	return m
})

// Classify looks method and rawPath up in Table; see Matcher.Classify.
func Classify(method, rawPath string) Match { return tableMatcher().Classify(method, rawPath) }
