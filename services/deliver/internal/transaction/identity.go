package transaction

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/google/uuid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/wire"
)

// identify gives a request its id and, when it has a key, the fingerprint that tells it from others under the same key.
func identify(tenant uuid.UUID, req *wire.Transaction) (id uuid.UUID, fingerprint []byte) {
	if req.IdempotencyKey == "" {
		return queue.NewID(), []byte{}
	}
	const custom = 8 // the version of UUIDs whose content is the maker's own
	id = uuid.NewHash(sha256.New(), tenant, []byte(req.IdempotencyKey), custom)
	return id, fingerprintOf(req.Operations)
}

// fingerprintOf is of everything that the operations would change. It is compared with what is stored, so what goes into
// it for a given request stays the same from version to version.
func fingerprintOf(operations []wire.Operation) []byte {
	f := fingerprinter{sha256.New()}
	f.text("queen transaction 1")
	for i := range operations {
		o := &operations[i]
		if o.IsAck {
			f.text("ack", o.Ack.TransactionID, canonical(o.Ack.PartitionID), o.Group, o.Ack.Reason)
			f.number(int(o.Ack.Status))
			continue
		}
		trace := ""
		if o.TraceID != nil {
			trace = o.TraceID.String()
		}
		f.text("push", o.Push.Queue, o.Push.Partition, o.Push.TransactionID, trace)
		f.bytes(o.Push.Payload)
	}
	return f.Sum(nil)
}

// canonical is the one spelling of a UUID.
func canonical(text string) string {
	if id, err := uuid.Parse(text); err == nil {
		return id.String()
	}
	return text
}

// fingerprinter hashes values with their lengths, so that no two lists of values look alike.
type fingerprinter struct{ hash.Hash }

func (f fingerprinter) number(n int) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(n))
	f.Write(length[:]) // a hash never fails
}

func (f fingerprinter) bytes(b []byte) {
	f.number(len(b))
	f.Write(b) // as above
}

func (f fingerprinter) text(values ...string) {
	for _, value := range values {
		f.bytes([]byte(value))
	}
}
