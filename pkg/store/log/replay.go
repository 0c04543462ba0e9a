package log

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// LetterGone is a verdict of Replay alone: the dead letter has left already; nothing was written.
const LetterGone Verdict = 6

const replaySQL = `SELECT verdict, coalesce(base_offset, 0), created_at, duplicate_offset, previous_tag
FROM queen.replay_dead_letter($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`

// Replay appends a run of one message and removes the dead letter that it was, in one transaction of one server call.
// checkTag says that an earlier call with the run's tag may have committed. The verdicts are those of Append and
// LetterGone; found is false when the partition no longer exists. The error is the driver's, as Append's.
func (s *Store) Replay(ctx context.Context, tenant, letter uuid.UUID, run *Run, checkTag bool) (placed Placed, found bool, err error) {
	var first, base, last, tag *int64
	var since *time.Time
	if v := run.Voucher; v != nil {
		first, since, base, last, tag = &v.First, &v.Since, &v.Base, &v.Last, &v.Tag
	}
	conn, err := s.Acquire(ctx)
	if err != nil {
		return Placed{}, false, err
	}
	defer conn.Release()
	placed = Placed{Partition: run.Partition.ID}
	var created *time.Time
	var original *int64
	err = conn.QueryRow(ctx, replaySQL, wireUUID(tenant), wireUUID(letter), run.Partition.ID, wireUUID(run.Partition.UID), run.Tag,
		int32(run.Segment.RawBytes), run.Segment.Codec, run.Segment.Blob, wireUUID(run.Hashes[0]), run.Sealed, checkTag,
		first, since, base, last, tag,
	).Scan(&placed.Verdict, &placed.Base, &created, &original, &placed.Previous)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Placed{}, false, nil
	case err != nil:
		return Placed{}, false, err
	}
	if created != nil {
		placed.CreatedAt = *created
	}
	if original != nil {
		placed.Positions, placed.Originals = []int32{1}, []int64{*original}
	}
	return placed, true, nil
}
