package pg

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// sessions prepares and judges the connections of one pool.
type sessions struct {
	settings   string // SET statements, sent to every new connection
	timeout    time.Duration
	generation generation
	lineage    *Lineage
	logger     *slog.Logger
}

// bornKey is where a connection keeps the generation it was made in.
const bornKey = "queen.generation"

// settingsSQL is one text of several statements: one round trip. Plans must not depend on when a statement was first
// seen: generic ones are made once, and one that was made while a table was empty must not read all of it when it is
// full. Every statement here has an index for what it asks. Compiling plans costs more than running them.
func settingsSQL(c Config) string {
	return fmt.Sprintf("SET statement_timeout = %d; SET lock_timeout = %d; SET idle_in_transaction_session_timeout = %d; "+
		"SET plan_cache_mode = force_generic_plan; SET jit = off; SET enable_seqscan = off",
		c.StatementTimeout.Milliseconds(), c.LockTimeout.Milliseconds(), c.IdleInTransactionTimeout.Milliseconds())
}

// validate runs inside the connect attempt, so that the connect timeout covers it. It accepts a server that is new
// enough and takes writes.
func (s *sessions) validate(ctx context.Context, conn *pgconn.PgConn) error {
	// Read before the server is asked: a failover between the two must count against this connection.
	conn.CustomData()[bornKey] = s.generation.current()
	if err := CheckServerVersion(conn.ParameterStatus("server_version")); err != nil {
		return err
	}
	standby, readOnly := conn.ParameterStatus("in_hot_standby"), conn.ParameterStatus("default_transaction_read_only")
	switch {
	case standby == "on" || readOnly == "on":
		return errReadOnly
	case standby == "off" && readOnly == "off":
		return nil
	}
	// A pooler does not pass these on.
	result := conn.ExecParams(ctx, "SHOW transaction_read_only", nil, nil, nil, nil).Read()
	if result.Err != nil {
		return fmt.Errorf("ask whether the server takes writes: %w", result.Err)
	}
	if len(result.Rows) != 1 || string(result.Rows[0][0]) != "off" {
		return errReadOnly
	}
	return nil
}

// timelineSQL runs on a primary only. Names of WAL files begin with the timeline in hexadecimal.
const timelineSQL = `SELECT s.system_identifier, ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint
FROM pg_control_system() s`

// afterConnect prepares a connection for the pool.
func (s *sessions) afterConnect(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.setUp(ctx, conn); err != nil {
		return &unusableError{err}
	}
	return nil
}

// setUp applies the session settings and compares timelines.
func (s *sessions) setUp(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.PgConn().Exec(ctx, s.settings).ReadAll(); err != nil {
		return fmt.Errorf("apply session settings: %w", err)
	}
	var system, timeline int64
	err := conn.QueryRow(ctx, timelineSQL, pgx.QueryExecModeExec).Scan(&system, &timeline)
	if err != nil {
		if Transient(err) && !SchemaMissing(err) {
			return fmt.Errorf("ask for the timeline: %w", err)
		}
		// Some hosted servers hide these functions; they also see to it that an old primary is gone.
		s.logger.DebugContext(ctx, "timeline of the server is not readable", "err", err)
		return nil
	}
	born, _ := conn.PgConn().CustomData()[bornKey].(int64)
	born, err = s.lineage.observe(&s.generation, born, system, timeline)
	conn.PgConn().CustomData()[bornKey] = born
	return err
}

// prepare runs when a connection is borrowed; false drops it and takes another.
func (s *sessions) prepare(_ context.Context, conn *pgx.Conn) (bool, error) {
	born, _ := conn.PgConn().CustomData()[bornKey].(int64)
	return born == s.generation.current(), nil
}

// onError decides whether a connection outlives an error of the server.
func (s *sessions) onError(_ *pgconn.PgConn, err *pgconn.PgError) bool {
	v := judge(err.Code)
	if v.flush {
		s.generation.advance()
	}
	return !v.drop && !isFatal(err)
}
