package admin

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"queen.internal/pkg/pg"
)

const deleteSQL = `SELECT queen.delete_queue($1, $2)`

// Delete deletes a queue and says whether there was one. Its name is free at once; what it held is removed later, and can
// be neither delivered nor acked any more. Repeating it is harmless, but a repetition after a lost answer also deletes a
// queue that was created since. Errors have a kind.
func (s *Store) Delete(ctx context.Context, tenant uuid.UUID, name string) (existed bool, err error) {
	var id pgtype.UUID
	err = s.pool.QueryRow(ctx, deleteSQL, pgtype.UUID{Bytes: tenant, Valid: true}, name).Scan(&id)
	return id.Valid, pg.Wrap("delete queue", err)
}
