package testkit

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// Codes in the place of the protocol version of a first message.
const (
	cancelRequest = 80877102
	sslRequest    = 80877103
	gssRequest    = 80877104
)

// maxMessage is above anything the server accepts.
const maxMessage = 1 << 30

// message is one protocol message: its type, 0 for a first message, and all its bytes.
type message struct {
	kind byte
	raw  []byte
}

// readMessage reads any message but a first one.
func readMessage(r *bufio.Reader) (message, error) {
	head, err := r.Peek(5)
	if err != nil {
		return message{}, err
	}
	raw, err := readSized(r, 1, binary.BigEndian.Uint32(head[1:]))
	return message{kind: head[0], raw: raw}, err
}

// readFirst reads the message that a client opens a connection with.
func readFirst(r *bufio.Reader) (code uint32, raw []byte, err error) {
	head, err := r.Peek(4)
	if err != nil {
		return 0, nil, err
	}
	raw, err = readSized(r, 0, binary.BigEndian.Uint32(head))
	if err == nil && len(raw) < 8 {
		err = fmt.Errorf("a first message of %d bytes", len(raw))
	}
	if err != nil {
		return 0, nil, err
	}
	return binary.BigEndian.Uint32(raw[4:]), raw, nil
}

// readSized reads a message whose length field, after so many bytes, says size; the field counts itself.
func readSized(r *bufio.Reader, before int, size uint32) ([]byte, error) {
	if size < 4 || size > maxMessage {
		return nil, fmt.Errorf("a message of %d bytes", size)
	}
	raw := make([]byte, before+int(size))
	_, err := io.ReadFull(r, raw)
	return raw, err
}

// texts are the leading zero-terminated strings of the message's body, n of them; missing ones are empty.
func (m message) texts(n int) []string {
	texts, rest := make([]string, n), m.raw[5:]
	for i := range texts {
		text, after, found := bytes.Cut(rest, []byte{0})
		if !found {
			break
		}
		texts[i], rest = string(text), after
	}
	return texts
}

// sqlState is the code field of an ErrorResponse.
func (m message) sqlState() string {
	for field := range bytes.SplitSeq(m.raw[5:], []byte{0}) {
		if len(field) > 1 && field[0] == 'C' {
			return string(field[1:])
		}
	}
	return ""
}

// session is what a client has told the server about its statements.
type session struct {
	prepared map[string]string // SQL text by the statement's name
	portals  map[string]string // SQL text by the portal's name
}

// exchange is what a client sends before it waits, and what becomes of it.
type exchange struct {
	bytes    []byte
	sql      []string // texts of the statements it executes, in order
	answered bool     // the server ends its answer with ReadyForQuery
	trap     *Trap    // nil for most
	answer   Answer
}

// Answer is how the server ended an exchange.
type Answer struct {
	Tag      string // of the last statement that completed, such as "SELECT 1"
	SQLState string // of the last error, empty without one
	Status   byte   // of the transaction afterwards: 'I' none, 'T' open, 'E' failed; 0 while there is no answer
}

// add takes the client's next message into the exchange and says whether it is the last one.
func (s *session) add(ex *exchange, m message) (last bool) {
	ex.bytes = append(ex.bytes, m.raw...)
	switch m.kind {
	case 'P': // Parse: statement, text
		t := m.texts(2)
		s.prepared[t[0]] = t[1]
	case 'B': // Bind: portal, statement
		t := m.texts(2)
		s.portals[t[0]] = s.prepared[t[1]]
	case 'E': // Execute: portal
		ex.sql = append(ex.sql, s.portals[m.texts(1)[0]])
	case 'Q': // Query: text
		ex.sql, ex.answered = append(ex.sql, m.texts(1)[0]), true
		return true
	case 'S', 'F': // Sync, FunctionCall
		ex.answered = true
		return true
	case 'C', 'D': // Close, Describe
	default: // Flush, Terminate, a password, data of a COPY: nothing to wait for
		return true
	}
	return false
}

// add takes the server's next message into the answer.
func (a *Answer) add(m message) {
	switch m.kind {
	case 'C':
		a.Tag = m.texts(1)[0]
	case 'E':
		a.SQLState = m.sqlState()
	case 'Z':
		a.Status = m.raw[5]
	}
}
