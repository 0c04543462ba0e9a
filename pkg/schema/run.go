package schema

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"queen.internal/pkg/backoff"
	"queen.internal/pkg/pg"
)

// StatementError is a statement of the corpus that the server refused.
type StatementError struct {
	File string
	Line int
	Err  error
}

func (e *StatementError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }

func (e *StatementError) Unwrap() error { return e.Err }

// batch is what one transaction installs.
type batch struct {
	file string
	text string
	line int // of the first character
}

// batches cuts the files into transactions: one statement each. A run of DROPs goes together with the statement after
// it, so that nobody meets the moment in between.
func (c Corpus) batches() ([]batch, error) {
	var all []batch
	for _, name := range c.Names {
		body, err := fs.ReadFile(c.Files, name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		statements, err := Split(string(body))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for i := 0; i < len(statements); i++ {
			first := statements[i]
			for i+1 < len(statements) && isDrop(statements[i].Text) {
				i++
			}
			last := statements[i]
			text := string(body[first.Offset : last.Offset+len(last.Text)])
			all = append(all, batch{file: name, text: text, line: first.Line})
		}
	}
	return all, nil
}

// isDrop leaves out the forms that the server does not run inside a transaction of several statements.
func isDrop(text string) bool {
	words := strings.Fields(strings.ToUpper(text))
	return len(words) > 2 && words[0] == "DROP" && words[2] != "CONCURRENTLY"
}

// run installs b, and gives way to the traffic as often as it must.
func (i *installer) run(ctx context.Context, b batch) error {
	for try := 1; ; try++ {
		err := i.once(ctx, b)
		if err == nil {
			return nil
		}
		if !lostLock(err) || try == pacing.tries {
			if lostLock(err) {
				err = fmt.Errorf("%w (%d tries; %s)", err, try, i.holders(ctx))
			}
			return b.fail(err)
		}
		i.logger.InfoContext(ctx, "schema apply gives way", "statement", fmt.Sprintf("%s:%d", b.file, b.line), "try", try, "err", err)
		if err := backoff.Sleep(ctx, pacing.pause.Next(try-1)); err != nil {
			return err
		}
	}
}

func (i *installer) once(ctx context.Context, b batch) error {
	if name := indexName(b.text); name != "" {
		if done, err := i.indexDone(ctx, name); done || err != nil {
			return err
		}
	}
	return i.exec(ctx, b.text)
}

// lostLock says that another session was in the way: the lock timeout passed, or a deadlock ended.
func lostLock(err error) bool {
	var state *pgconn.PgError
	return errors.As(err, &state) && (state.Code == "55P03" || state.Code == "40P01")
}

// fail gives err its place. The server counts characters from the start of what it was sent.
func (b batch) fail(err error) error {
	line := b.line
	var state *pgconn.PgError
	if errors.As(err, &state) && state.Position > 0 {
		seen := int32(0)
		for _, c := range b.text {
			if seen++; seen >= state.Position {
				break
			}
			if c == '\n' {
				line++
			}
		}
	}
	return fmt.Errorf("install the schema: %w", &StatementError{File: b.file, Line: line, Err: err})
}

const holdersSQL = `SELECT string_agg(format('pid %s %s %s since %s: %s', pid, application_name, state,
       to_char(xact_start, 'HH24:MI:SS'), left(regexp_replace(query, '\s+', ' ', 'g'), 80)), '; ')
FROM (SELECT DISTINCT a.pid, a.application_name, a.state, a.xact_start, a.query
      FROM pg_locks l
      JOIN pg_class c ON c.oid = l.relation
      JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'queen'
      JOIN pg_stat_activity a ON a.pid = l.pid
      WHERE l.granted AND l.pid <> pg_backend_pid()
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      ORDER BY a.xact_start LIMIT 5) s`

// holders names the sessions that hold locks in our schema, oldest first. They are only named: ending them is the
// operator's decision.
func (i *installer) holders(ctx context.Context) string {
	var list *string
	if err := i.conn.QueryRow(ctx, holdersSQL).Scan(&list); err != nil {
		return "asking who holds locks: " + pg.Reason(err)
	}
	if list == nil {
		return "nobody holds a lock any more"
	}
	return "locks are held by " + *list
}
