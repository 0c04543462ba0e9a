package ledger

import "encoding/hex"

// ID says which message it is. As a transaction id it is 36 characters long, like the UUIDs that applications use.
type ID struct {
	Producer  uint16
	Partition uint32 // 24 bits
	Seq       uint32 // counts the messages of this producer in this partition from 0
	At        int64  // when it was due to be sent, in microseconds since the ledger's epoch; 40 bits, 12 days
}

// IDLength is the length of every transaction id in bytes.
const IDLength = 36

// raw is an ID with its run, before it is text.
const rawLength = IDLength / 2

// appendID appends the text of id to b.
func appendID(b []byte, run uint32, id ID) []byte {
	var raw [rawLength]byte
	put(raw[0:4], uint64(run))
	put(raw[4:6], uint64(id.Producer))
	put(raw[6:9], uint64(id.Partition))
	put(raw[9:13], uint64(id.Seq))
	put(raw[13:18], uint64(id.At))
	return hex.AppendEncode(b, raw[:])
}

// parseID reads what appendID wrote. It is false for anything else.
func parseID(text []byte, run uint32) (ID, bool) {
	var raw [rawLength]byte
	if len(text) != IDLength {
		return ID{}, false
	}
	if _, err := hex.Decode(raw[:], text); err != nil || take(raw[0:4]) != uint64(run) {
		return ID{}, false
	}
	return ID{
		Producer: uint16(take(raw[4:6])), Partition: uint32(take(raw[6:9])), Seq: uint32(take(raw[9:13])), At: int64(take(raw[13:18])),
	}, true
}

// put writes n big endian into all of b, take reads it.
func put(b []byte, n uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = byte(n)
		n >>= 8
	}
}

func take(b []byte) uint64 {
	var n uint64
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n
}
