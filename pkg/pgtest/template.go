package pgtest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/schema"
	"queen.internal/sql/broker"
)

// buildLock is the advisory lock under which a template is built; any number that nothing else on a test server uses.
const buildLock = 778_120_099

// template is the name of the database that holds the schema, made once per process.
var template = sync.OnceValues(func() (string, error) {
	h, err := shared()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), workLimit)
	defer cancel()
	name := "queen_template_" + broker.Hash()[:16]
	if err := h.ensureTemplate(ctx, name); err != nil {
		return "", fmt.Errorf("build the template database: %w", err)
	}
	return name, nil
})

func (h *host) ensureTemplate(ctx context.Context, name string) error {
	return h.admin(ctx, func(conn *pgx.Conn) error {
		// A session lock: it ends with this connection, whatever happens to this process.
		if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, buildLock); err != nil {
			return err
		}
		var found bool
		if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&found); err != nil {
			return err
		}
		if found {
			return nil
		}
		unfinished := name + "_unfinished"
		for _, sql := range []string{
			`DROP DATABASE IF EXISTS ` + quote(unfinished) + ` WITH (FORCE)`,
			`CREATE DATABASE ` + quote(unfinished) + ` TEMPLATE template0 STRATEGY file_copy`,
		} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return err
			}
		}
		if err := install(ctx, h.database(unfinished)); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, `ALTER DATABASE `+quote(unfinished)+` RENAME TO `+quote(name))
		return err
	})
}

func install(ctx context.Context, config pg.Config) error {
	pool, err := pg.Open(ctx, config, pg.Options{Name: "pgtest"})
	if err != nil {
		return err
	}
	defer pool.Close()
	return schema.Apply(ctx, pool, slog.New(slog.DiscardHandler))
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }
