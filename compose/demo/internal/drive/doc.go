// Package drive pushes records and consumes them again with groups of workers, one of which is a process of its own that
// is killed while it holds a lease; the ledger hears of everything.
//
// Goroutines: Run owns one that reads the records and gives out sequences, one per producer, one per worker, one that
// watches the victim process and one that watches for standstill; it returns when all have ended. Records of one partition
// go through one producer, which sends one request after the other, so push order per partition is the order of the
// source. A worker tells the ledger of a delivery before it acknowledges it, so the broker cannot give the next message of
// that partition to another worker whose report would arrive first. When the context ends, an acknowledgment under way
// is finished, everything else stops at once and the victim is killed.
package drive

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// Run is the name of one run. It is part of every transaction id and group name: two runs over one queue never take each
// other's messages for their own, and the same run again finds its messages already there.
type Run string

// TransactionID is the identity of a message: run, sequence in its partition and a digest of its payload.
func (r Run) TransactionID(sequence int, payload []byte) string {
	return string(r) + "/" + strconv.Itoa(sequence) + "/" + digest(payload)
}

// Parse reads a transaction id of this run; intact says whether payload is the one it was made for.
func (r Run) Parse(id string, payload []byte) (sequence int, intact, ours bool) {
	rest, ours := strings.CutPrefix(id, string(r)+"/")
	number, sum, found := strings.Cut(rest, "/")
	sequence, err := strconv.Atoi(number)
	if !ours || !found || err != nil {
		return 0, false, false
	}
	return sequence, sum == digest(payload), true
}

// Group is the name of a consumer group of this run.
func (r Run) Group(name string) string { return name + "-" + string(r) }

func digest(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:8])
}
