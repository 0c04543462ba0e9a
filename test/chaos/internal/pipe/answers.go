package pipe

import "encoding/binary"

// headLength is a message's type and length.
const headLength = 5

// readyForQuery is the type of the message that ends an answer.
const readyForQuery = 'Z'

// answers finds the ends of answers in what a PostgreSQL server sends. Fed with anything else it finds nothing of
// meaning.
type answers struct {
	head []byte // of a message, as far as it has come
	left int    // bytes of the current message's body
}

// feed looks at the next bytes and says how many answers end in them.
func (a *answers) feed(data []byte) (ends int) {
	for len(data) > 0 {
		if a.left > 0 {
			n := min(a.left, len(data))
			a.left -= n
			data = data[n:]
			continue
		}
		n := min(headLength-len(a.head), len(data))
		a.head = append(a.head, data[:n]...)
		data = data[n:]
		if len(a.head) < headLength {
			return ends
		}
		if a.head[0] == readyForQuery {
			ends++
		}
		a.left = max(int(binary.BigEndian.Uint32(a.head[1:]))-4, 0)
		a.head = a.head[:0]
	}
	return ends
}
