package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"queen.internal/compose/local"
)

// statement is what PostgreSQL remembers of one kind of statement.
type statement struct {
	text   string
	calls  int64
	millis float64 // of execution, in all
	plan   float64 // ms of planning, in all; 0 unless it is counted
	rows   int64
	blocks int64 // touched in the cache or read
}

// countStatements makes PostgreSQL remember statements from here on, which takes a restart of it. It is false where the
// extension is not installed. nested tells statements inside of procedures apart, and what their plans cost.
func (b *bench) countStatements(ctx context.Context, nested bool) (bool, error) {
	var installed bool
	err := b.query(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		err := conn.QueryRow(ctx, `SELECT count(*) > 0 FROM pg_available_extensions WHERE name = 'pg_stat_statements'`).Scan(&installed)
		if err != nil || !installed {
			return err
		}
		_, err = conn.Exec(ctx, `ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'`)
		return err
	})
	if err != nil || !installed {
		return false, err
	}
	if err := b.stack.StopDatabase(ctx); err != nil {
		return false, err
	}
	if err := b.stack.StartDatabase(ctx); err != nil {
		return false, err
	}
	for _, service := range local.Names() {
		for i := range b.stack.URLs(service) {
			if err := b.stack.AwaitHealthy(ctx, service, i+1); err != nil {
				return false, err
			}
		}
	}
	wanted := []string{`CREATE EXTENSION IF NOT EXISTS pg_stat_statements`}
	if nested { // settings that the server knows now
		wanted = append(wanted, `ALTER SYSTEM SET pg_stat_statements.track = 'all'`, `ALTER SYSTEM SET pg_stat_statements.track_planning = on`,
			`SELECT pg_reload_conf()`)
	}
	for _, sql := range wanted {
		if err := b.exec(ctx, sql); err != nil {
			return false, err
		}
	}
	return true, nil
}

// forgetStatements begins a new count.
func (b *bench) forgetStatements(ctx context.Context) error {
	return b.exec(ctx, `SELECT pg_stat_statements_reset()`)
}

// statements are those of the services since the count began, the dearest first.
func (b *bench) statements(ctx context.Context) (all []statement, err error) {
	err = b.query(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT query, calls, total_exec_time, total_plan_time, rows, shared_blks_hit + shared_blks_read
			FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid WHERE r.rolname = 'queen' ORDER BY total_exec_time DESC`)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (s statement, err error) {
			return s, row.Scan(&s.text, &s.calls, &s.millis, &s.plan, &s.rows, &s.blocks)
		})
		return err
	})
	return all, err
}

// saveStatements writes the dearest statements beside the profiles.
func (b *bench) saveStatements(ctx context.Context, name string) error {
	all, err := b.statements(ctx)
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintln(&text, "calls\tms in all\tms each\tms of planning in all\trows\tblocks\tstatement")
	for _, s := range all[:min(len(all), 40)] {
		fmt.Fprintf(&text, "%d\t%.0f\t%.3f\t%.0f\t%d\t%d\t%s\n", s.calls, s.millis, s.millis/float64(s.calls), s.plan, s.rows, s.blocks, strings.Join(strings.Fields(s.text), " "))
	}
	return os.WriteFile(filepath.Join(b.profiles, name+".statements.txt"), []byte(text.String()), 0o644)
}

// exec runs one statement as the cluster's superuser.
func (b *bench) exec(ctx context.Context, sql string, args ...any) error {
	return b.query(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, sql, args...); err != nil {
			return fmt.Errorf("%.60s: %w", sql, err)
		}
		return nil
	})
}

// query lends a connection of the cluster's superuser.
func (b *bench) query(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, b.stack.DSN())
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, conn), conn.Close(ctx))
}
