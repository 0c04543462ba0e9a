package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	"github.com/google/uuid"

	"queen.internal/pkg/segment"
)

// words makes payloads that compress about three times, like the JSON of most applications.
var words = []string{
	"order", "customer", "amount", "pending", "shipped", "invoice", "address", "street", "number", "country", "email",
	"created", "updated", "status", "total", "currency", "payment", "method", "card", "transfer", "item", "quantity",
	"price", "discount", "warehouse", "carrier", "tracking", "parcel", "weight", "height", "length", "comment", "please",
	"deliver", "before", "noon", "thanks", "return", "refund", "partial", "complete", "cancelled", "review", "rating",
}

// payload is a JSON object of about size bytes.
func payload(r *rand.Rand, size int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"id":%d,"text":"`, r.Uint64())
	for b.Len() < size-2 {
		b.WriteString(words[r.IntN(len(words))])
		b.WriteByte(' ')
	}
	b.WriteString(`"}`)
	return b.Bytes()
}

func messages(r *rand.Rand, count int) []segment.Message {
	msgs := make([]segment.Message, count)
	for i := range msgs {
		id := uuid.Must(uuid.NewV7())
		msgs[i] = segment.Message{ID: id, TransactionID: id.String(), Payload: payload(r, 256)}
	}
	return msgs
}

// plain is the frames of msgs without compression, for choices that leave it to the server.
func plain(msgs []segment.Message) []byte {
	var raw []byte
	for i := range msgs {
		raw = append(raw, msgs[i].ID[:]...)
		raw = append(raw, msgs[i].Payload...)
	}
	return raw
}
