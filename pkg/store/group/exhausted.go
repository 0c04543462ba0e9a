package group

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/store/log"
)

const deadLetterSQL = `SELECT queen.dead_letter_heads($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`

// deadLetter reads the heads that a claim called exhausted and has them filed, each in the transaction that moves its
// cursor. One that retention has removed meanwhile is left to the next claim. Errors have a kind.
func (s *Store) deadLetter(ctx context.Context, req *ClaimRequest, due []Claim) error {
	spans := make([]log.Span, len(due))
	for i := range due {
		spans[i] = log.Span{Partition: due[i].PartitionID, First: due[i].First, Last: due[i].First}
	}
	found, err := s.log.Read(ctx, spans)
	if err != nil {
		return err
	}
	var partitions, offsets []int64
	var ids uuids
	var created []time.Time
	var transactions []string
	var payloads [][]byte
	for i := range due {
		if len(found[i]) == 0 {
			continue
		}
		m, err := messageAt(&found[i][0], due[i].First)
		if err != nil {
			return err
		}
		partitions, offsets = append(partitions, due[i].PartitionID), append(offsets, due[i].First)
		ids, created = append(ids, optionalUUID(&m.ID)), append(created, found[i][0].CreatedAt)
		transactions, payloads = append(transactions, m.TransactionID), append(payloads, stored(m.Payload))
	}
	if len(partitions) == 0 {
		return nil
	}
	rows, err := s.pool.Query(ctx, deadLetterSQL, req.Subscription.ID, optionalUUID(&req.Subscription.UID), optionalTime(req.Clock.Cap),
		partitions, offsets, ids, created, transactions, payloads, optionalTime(req.Clock.Floor), req.Clock.Settled)
	if err != nil {
		return pg.Wrap("dead-letter exhausted messages", err)
	}
	_, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	return pg.Wrap("dead-letter exhausted messages", err)
}
