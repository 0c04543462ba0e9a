package queue

import (
	"github.com/google/uuid"
	"github.com/zeebo/xxh3"
)

// NewID mints a UUIDv7, the form of message, lease and call identifiers.
func NewID() uuid.UUID {
	// NewV7 reads the operating system's random source, which does not fail once the process runs.
	return uuid.Must(uuid.NewV7())
}

// TransactionHash is the identity deduplication and acks compare: xxh3-128 of the transaction id's text.
func TransactionHash(transactionID string) uuid.UUID {
	return uuid.UUID(xxh3.HashString128(transactionID).Bytes())
}
