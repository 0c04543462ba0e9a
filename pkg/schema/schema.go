package schema

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
	"queen.internal/sql/broker"
)

// Corpus is a set of SQL files with its place in history.
type Corpus struct {
	Files   fs.FS
	Names   []string // in the order of installation
	Version int
	Hash    string // equal hashes mean equal files
}

// Broker is the corpus of this binary.
func Broker() Corpus {
	return Corpus{Files: broker.Files, Names: broker.Names(), Version: broker.Version, Hash: broker.Hash()}
}

// Apply installs this binary's schema where the database is behind it; see Corpus.Apply.
func Apply(ctx context.Context, pool *pg.Pool, logger *slog.Logger) error {
	return Broker().Apply(ctx, pool, logger)
}

// Check says whether this binary can work on the database; see Corpus.Check.
func Check(ctx context.Context, pool *pg.Pool, logger *slog.Logger) error {
	return Broker().Check(ctx, pool, logger)
}

// MissingError says that the database is behind this binary.
type MissingError struct {
	Need       int // version of this binary
	Have       int // complete version, 0 for none
	Installing int // version an unfinished installation moves to, 0 for none
}

func (e *MissingError) Error() string {
	have := "none is installed"
	if e.Have > 0 {
		have = fmt.Sprintf("the database has %d", e.Have)
	}
	if e.Installing > 0 {
		have += fmt.Sprintf(", the installation of %d has not ended", e.Installing)
	}
	return fmt.Sprintf("schema version %d is missing: %s", e.Need, have)
}

// Check returns nil when the database has this version or a newer one, a *MissingError when it is behind, and an error
// of the connection otherwise. It changes nothing.
func (c Corpus) Check(ctx context.Context, pool *pg.Pool, logger *slog.Logger) error {
	s, err := readState(ctx, pool)
	if err != nil {
		return err
	}
	if s.version < c.Version {
		return &MissingError{Need: c.Version, Have: s.version, Installing: s.installing}
	}
	c.report(ctx, s, logger)
	return nil
}

// report says in the log what is unusual about a schema that this binary works on.
func (c Corpus) report(ctx context.Context, s state, logger *slog.Logger) {
	switch {
	case s.newest() > c.Version:
		logger.WarnContext(ctx, "schema is newer than this binary, left as it is", "schema", s.newest(), "binary", c.Version)
	case s.hash != c.Hash:
		logger.WarnContext(ctx, "schema has this binary's version but another text", "version", c.Version, "schema_hash", s.hash, "binary_hash", c.Hash)
	}
}

// state is the row of queen.schema_version; zero when there is none.
type state struct {
	version    int
	hash       string
	installing int
}

// newest is the highest version that has touched the database.
func (s state) newest() int { return max(s.version, s.installing) }

// current says that c is completely installed.
func (s state) current(c Corpus) bool {
	return s.version == c.Version && s.hash == c.Hash && s.installing == 0
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

const readStateSQL = `SELECT version, hash, coalesce(installing, 0) FROM queen.schema_version`

func readState(ctx context.Context, q querier) (state, error) {
	var s state
	err := q.QueryRow(ctx, readStateSQL).Scan(&s.version, &s.hash, &s.installing)
	switch {
	case errors.Is(err, pgx.ErrNoRows), pg.TableMissing(err):
		return state{}, nil
	case err != nil:
		return state{}, pg.Wrap("read the schema version", err)
	}
	return s, nil
}
