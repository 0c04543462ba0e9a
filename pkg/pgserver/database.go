package pgserver

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// EnsureDatabase creates a role without special rights and a database that it owns, each where missing. The role has
// the cluster's password.
func (s *Server) EnsureDatabase(ctx context.Context, role, database string) error {
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return fmt.Errorf("connect to the private cluster: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // the work is done by then
	var verb string
	err = conn.QueryRow(ctx, `SELECT CASE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = $1) THEN 'ALTER' ELSE 'CREATE' END`,
		role).Scan(&verb)
	if err != nil {
		return fmt.Errorf("look for role %s: %w", role, err)
	}
	// The password is letters and digits, so quoting it is safe; it cannot be a parameter.
	name := pgx.Identifier{role}.Sanitize()
	if _, err := conn.Exec(ctx, verb+` ROLE `+name+` LOGIN PASSWORD '`+s.password+`'`); err != nil {
		return fmt.Errorf("create role %s: %w", role, err)
	}
	_, err = conn.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{database}.Sanitize()+` OWNER `+name)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "42P04" { // duplicate_database
		return nil
	}
	if err != nil {
		return fmt.Errorf("create database %s: %w", database, err)
	}
	return nil
}
