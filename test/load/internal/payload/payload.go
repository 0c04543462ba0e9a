// Package payload makes the bodies of the messages that the load generator sends: JSON objects of words, of an exact size
// and of a compressibility that one can choose. A pool is made once, from a seed, so that a subject and its yardstick
// carry the same bytes, and so that a reader can compare what it gets with what was sent without having kept it.
package payload

import (
	"fmt"
	"math/rand/v2"
)

// words are what the text is made of.
var words = []string{
	"order", "customer", "amount", "pending", "shipped", "invoice", "address", "street", "number", "country", "email",
	"created", "updated", "status", "total", "currency", "payment", "method", "card", "transfer", "item", "quantity",
	"price", "discount", "warehouse", "carrier", "tracking", "parcel", "weight", "height", "length", "comment", "please",
	"deliver", "before", "noon", "thanks", "return", "refund", "partial", "complete", "cancelled", "review", "rating",
}

const (
	head = `{"text":"`
	tail = `"}`
	// MinSize is the smallest payload that holds a letter of text.
	MinSize = len(head) + len(tail) + 1

	// DefaultRandomShare makes a segment of a hundred messages of 256 bytes compress three times.
	DefaultRandomShare = 0.2

	letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
)

// Pool is a fixed set of payloads. It never changes, so any number of goroutines may read it.
type Pool struct {
	payloads [][]byte
}

// New makes count payloads of size bytes each. randomShare, from 0 to 1, is how much of the text is random characters
// instead of words: 0 compresses best, 1 hardly at all.
func New(count, size int, randomShare float64, seed uint64) (*Pool, error) {
	if count < 1 || size < MinSize || randomShare < 0 || randomShare > 1 {
		return nil, fmt.Errorf("make %d payloads of %d bytes with a random share of %g: at least 1, %d bytes, a share from 0 to 1",
			count, size, randomShare, MinSize)
	}
	r := rand.New(rand.NewPCG(seed, seed))
	p := &Pool{payloads: make([][]byte, count)}
	for i := range p.payloads {
		p.payloads[i] = text(r, size, randomShare)
	}
	return p, nil
}

// At is the payload of a message's number.
func (p *Pool) At(number uint64) []byte { return p.payloads[number%uint64(len(p.payloads))] }

// Size is the length of every payload in bytes.
func (p *Pool) Size() int { return len(p.payloads[0]) }

func text(r *rand.Rand, size int, randomShare float64) []byte {
	b := make([]byte, 0, size+16)
	b = append(b, head...)
	for len(b) < size-len(tail) {
		if r.Float64() < randomShare {
			for range 6 { // about as long as a word, so that the share is one of bytes
				b = append(b, letters[r.IntN(len(letters))])
			}
		} else {
			b = append(b, words[r.IntN(len(words))]...)
		}
		b = append(b, ' ')
	}
	return append(b[:size-len(tail)], tail...)
}
