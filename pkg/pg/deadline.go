package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// deadlineGrace lets the server's statement_timeout speak first: it ends the statement with a clean answer. The client's
// own deadline is for the server that cannot.
const deadlineGrace = time.Second

// deadline gives every statement and batch a client-side limit. A tracer is the one place of the driver that all of them
// pass and that may replace their context.
type deadline struct{ limit time.Duration }

type cancelKey struct{}

func (d deadline) start(ctx context.Context) context.Context {
	ctx, cancel := context.WithTimeout(ctx, d.limit)
	return context.WithValue(ctx, cancelKey{}, cancel)
}

func (d deadline) end(ctx context.Context) {
	if cancel, ok := ctx.Value(cancelKey{}).(context.CancelFunc); ok {
		cancel()
	}
}

func (d deadline) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return d.start(ctx)
}

func (d deadline) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	d.end(ctx)
}

func (d deadline) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return d.start(ctx)
}

func (d deadline) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (d deadline) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) {
	d.end(ctx)
}
