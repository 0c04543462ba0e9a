package schema

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/backoff"
	"queen.internal/pkg/pg"
)

// lockKey is the advisory lock of installers, the same as in the original, so that both never install at once.
const lockKey = 778120010

// pacing is how an installer gives way. Tests are less patient.
var pacing = struct {
	// lockTimeout bounds how long a statement waits for its lock. Everybody who comes after it waits as long, so it is
	// also the longest stall that an installation causes.
	lockTimeout time.Duration
	tries       int            // with the pauses about three minutes for one statement
	pause       backoff.Policy // between tries
	poll        backoff.Policy // between looks at another installer
}{
	lockTimeout: 2 * time.Second,
	tries:       40,
	pause:       backoff.Policy{Min: 200 * time.Millisecond, Max: 3 * time.Second},
	poll:        backoff.Policy{Min: 50 * time.Millisecond, Max: time.Second},
}

// Apply installs the corpus where the database is behind it, and returns when it is complete. A database that a newer
// version was installed in is left alone: nil, with a line in the log. A *StatementError names file and line; a
// *MissingError means that a newer binary has begun to install and nobody can work yet. Other errors are those of the
// connection. Calling it again after any error is safe.
func (c Corpus) Apply(ctx context.Context, pool *pg.Pool, logger *slog.Logger) error {
	s, err := readState(ctx, pool)
	if err != nil {
		return err
	}
	if done, err := c.settled(ctx, s, logger); done {
		return err
	}
	i, err := connect(ctx, c, pool, logger)
	if err != nil {
		return err
	}
	defer i.close()
	return i.install(ctx)
}

// settled says whether an installer has nothing to do in state s, and whether this binary can work there.
func (c Corpus) settled(ctx context.Context, s state, logger *slog.Logger) (bool, error) {
	switch {
	case s.current(c):
		return true, nil
	case s.newest() <= c.Version:
		return false, nil
	case s.version < c.Version:
		return true, &MissingError{Need: c.Version, Have: s.version, Installing: s.installing}
	}
	c.report(ctx, s, logger)
	return true, nil
}

// installer is one attempt on one connection that is not the pool's: the advisory lock belongs to the session, and a
// session that went back to a pool would keep it.
type installer struct {
	corpus Corpus
	conn   *pgx.Conn
	logger *slog.Logger
}

// sessionSQL: building an index may take long; names are always qualified, so that nothing lands where a search path of
// the role points to.
const sessionSQL = `SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET lock_timeout = %d;
SET search_path = ''; SET client_min_messages = warning`

func connect(ctx context.Context, c Corpus, pool *pg.Pool, logger *slog.Logger) (*installer, error) {
	conf := pool.Config().ConnConfig
	conf.Tracer = nil // it bounds every statement
	conf.RuntimeParams["application_name"] += " schema"
	conn, err := pgx.ConnectConfig(ctx, conf)
	if err != nil {
		return nil, pg.Wrap("connect to install the schema", err)
	}
	i := &installer{corpus: c, conn: conn, logger: logger}
	if err := i.exec(ctx, fmt.Sprintf(sessionSQL, pacing.lockTimeout.Milliseconds())); err != nil {
		i.close()
		return nil, pg.Wrap("prepare to install the schema", err)
	}
	return i, nil
}

// close ends the session, and with it the lock. The server notices a closed connection even when the farewell is lost.
func (i *installer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := i.conn.Close(ctx); err != nil {
		i.logger.DebugContext(ctx, "close the installer's connection", "err", err)
	}
}

func (i *installer) exec(ctx context.Context, text string) error {
	_, err := i.conn.PgConn().Exec(ctx, text).ReadAll()
	return err
}

func (i *installer) install(ctx context.Context) error {
	if done, err := i.lock(ctx); done || err != nil {
		return err
	}
	started := time.Now()
	batches, err := i.corpus.batches()
	if err != nil {
		return err
	}
	if err := i.begin(ctx); err != nil {
		return pg.Wrap("install the schema", err)
	}
	i.logger.InfoContext(ctx, "schema apply begins", "version", i.corpus.Version, "statements", len(batches))
	for _, b := range batches {
		if err := i.run(ctx, b); err != nil {
			return err
		}
	}
	if err := i.finish(ctx); err != nil {
		return pg.Wrap("record the schema version", err)
	}
	i.logger.InfoContext(ctx, "schema apply done", "version", i.corpus.Version, "duration", time.Since(started).Round(time.Millisecond))
	return nil
}

// lock takes the advisory lock. It polls instead of waiting in the server: a waiting session holds a snapshot, and the
// holder's CREATE INDEX CONCURRENTLY would wait for that snapshot in turn. done is true when another installer, or an
// earlier one, has made it superfluous.
func (i *installer) lock(ctx context.Context) (done bool, err error) {
	for attempt := 0; ; attempt++ {
		var locked bool
		if err := i.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, int64(lockKey)).Scan(&locked); err != nil {
			return false, pg.Wrap("lock the schema", err)
		}
		// Read after the lock: whoever held it before has committed.
		s, err := readState(ctx, i.conn)
		if err != nil {
			return false, err
		}
		if done, err := i.corpus.settled(ctx, s, i.logger); done || locked {
			return done, err
		}
		if attempt == 0 {
			i.logger.InfoContext(ctx, "another process installs the schema, waiting for it")
		}
		if err := backoff.Sleep(ctx, pacing.poll.Next(attempt)); err != nil {
			return false, err
		}
	}
}

const stateTableSQL = `CREATE TABLE IF NOT EXISTS queen.schema_version (
    only_row    boolean NOT NULL DEFAULT true,
    version     integer NOT NULL,               -- completely installed, 0 before the first
    hash        text NOT NULL,                  -- fingerprint of that installation's files
    installing  integer,                        -- the version an unfinished installation moves to
    applied_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT schema_version_pkey PRIMARY KEY (only_row),
    CONSTRAINT schema_version_only_row_check CHECK (only_row)
)`

// begin marks the installation. From here on no older binary installs, even if this process ends half-way.
func (i *installer) begin(ctx context.Context) error {
	var exists bool
	if err := i.conn.QueryRow(ctx, `SELECT to_regnamespace('queen') IS NOT NULL`).Scan(&exists); err != nil {
		return err
	}
	if !exists {
		// IF NOT EXISTS alone would ask for the right to create even where the schema is there.
		if err := i.exec(ctx, `CREATE SCHEMA IF NOT EXISTS queen`); err != nil {
			return fmt.Errorf("create schema queen: %w", err)
		}
	}
	if err := i.exec(ctx, stateTableSQL); err != nil {
		return fmt.Errorf("create queen.schema_version: %w", err)
	}
	_, err := i.conn.Exec(ctx, `INSERT INTO queen.schema_version (version, hash, installing) VALUES (0, '', $1)
ON CONFLICT ON CONSTRAINT schema_version_pkey DO UPDATE SET installing = excluded.installing`, i.corpus.Version)
	return err
}

func (i *installer) finish(ctx context.Context) error {
	if err := i.reportInvalidIndexes(ctx); err != nil {
		return err
	}
	_, err := i.conn.Exec(ctx, `UPDATE queen.schema_version
SET version = $1, hash = $2, installing = NULL, applied_at = clock_timestamp()`, i.corpus.Version, i.corpus.Hash)
	return err
}
