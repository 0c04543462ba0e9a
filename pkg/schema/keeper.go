package schema

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"queen.internal/pkg/backoff"
	"queen.internal/pkg/pg"
)

// waitLogInterval is how often a Keeper repeats why it waits.
const waitLogInterval = 10 * time.Second

var (
	// The database comes back within seconds, or another process ends its installation: look often.
	waitPause = backoff.Policy{Min: 100 * time.Millisecond, Max: 2 * time.Second}
	// A statement that the server refuses needs somebody's hand: look seldom.
	refusedPause = backoff.Policy{Min: time.Second, Max: 30 * time.Second}
)

var errNotAsked = errors.New("the database has not answered yet")

// Keeper waits for the database, brings the schema to this binary's version or waits until somebody else has, and tells
// readiness how far that is.
type Keeper struct {
	corpus Corpus
	pool   *pg.Pool
	apply  bool
	logger *slog.Logger

	current chan struct{} // closed by Run, once
	mu      sync.Mutex
	reason  error // nil once current
}

// NewKeeper returns a Keeper that installs only when apply is true and the database role owns the schema, or may create
// it.
func NewKeeper(c Corpus, pool *pg.Pool, apply bool, logger *slog.Logger) *Keeper {
	return &Keeper{corpus: c, pool: pool, apply: apply, logger: logger, current: make(chan struct{}), reason: errNotAsked}
}

// Ready is nil once the schema has this binary's version, or a newer one; else it says what is missing.
func (k *Keeper) Ready() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reason
}

// Fingerprint names what this binary works with, once Ready; before that it is empty.
func (k *Keeper) Fingerprint() string {
	if k.Ready() != nil {
		return ""
	}
	return k.corpus.Hash
}

// Current is closed when Ready becomes nil, for components that have nothing to do before.
func (k *Keeper) Current() <-chan struct{} { return k.current }

// Run works until the schema is current and then waits for ctx; it returns nil when ctx ends. Its error ends the
// process: the first connection was refused in a way that waiting does not heal (see pg.FatalAtBoot). Everything else is
// retried and logged: a service without its schema still has jobs, such as spooling.
func (k *Keeper) Run(ctx context.Context) error {
	reached := false
	var logged time.Time
	for attempt := 0; ; attempt++ {
		err := k.once(ctx, &reached)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			k.settle(ctx)
			<-ctx.Done()
			return nil
		case !reached && pg.FatalAtBoot(err):
			return pg.BootError(k.pool, err)
		}
		if k.note(err) || time.Since(logged) >= waitLogInterval {
			logged = time.Now()
			k.complain(ctx, err)
		}
		pause := waitPause
		if refused(err) {
			pause = refusedPause
		}
		if backoff.Sleep(ctx, pause.Next(attempt)) != nil {
			return nil
		}
	}
}

// once makes one attempt. reached becomes true when the database has answered a question.
func (k *Keeper) once(ctx context.Context, reached *bool) error {
	s, err := readState(ctx, k.pool)
	if err != nil {
		return err
	}
	*reached = true
	if !k.apply {
		return k.check(ctx, "QUEEN_APPLY_SCHEMA is off, waiting for somebody else to install it")
	}
	if s.current(k.corpus) {
		return nil
	}
	owner, err := owned(ctx, k.pool)
	switch {
	case err != nil:
		return err
	case !owner:
		return k.check(ctx, "this database role does not own it, waiting for its owner")
	}
	return k.corpus.Apply(ctx, k.pool, k.logger)
}

// check adds to a missing version why this process does nothing about it.
func (k *Keeper) check(ctx context.Context, why string) error {
	err := k.corpus.Check(ctx, k.pool, k.logger)
	if isMissing(err) {
		return fmt.Errorf("%w; %s", err, why)
	}
	return err
}

// note records why the schema is not current, and says whether that is news.
func (k *Keeper) note(err error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	news := k.reason == nil || k.reason.Error() != err.Error()
	k.reason = err
	return news
}

func (k *Keeper) complain(ctx context.Context, err error) {
	switch {
	case refused(err):
		k.logger.ErrorContext(ctx, "schema apply failed", "err", pg.Reason(err))
	case isMissing(err):
		k.logger.WarnContext(ctx, "waiting for the schema", "err", err)
	default:
		k.logger.WarnContext(ctx, "waiting for the database", "err", pg.Reason(err))
	}
}

func isMissing(err error) bool { return errors.As(err, new(*MissingError)) }

// refused says that a statement or a right was the reason, not the way to the server: it needs somebody's hand. A lock
// that could not be had in all those tries counts as well.
func refused(err error) bool {
	return !isMissing(err) && (!pg.Transient(err) || pg.SchemaMissing(err) || lostLock(err))
}

func (k *Keeper) settle(ctx context.Context) {
	k.mu.Lock()
	k.reason = nil
	k.mu.Unlock()
	close(k.current)
	k.logger.InfoContext(ctx, "schema is current", "version", k.corpus.Version)

	var durable string
	err := k.pool.QueryRow(ctx, `SELECT current_setting('synchronous_commit')`).Scan(&durable)
	switch {
	case err != nil:
		k.logger.DebugContext(ctx, "ask for synchronous_commit", "err", err)
	case durable == "off":
		k.logger.WarnContext(ctx, "synchronous_commit is off: a crash of PostgreSQL loses messages that were acknowledged")
	}
}

// owned says whether the database role may install: it owns schema queen, directly or through a role, or may create it.
func owned(ctx context.Context, pool *pg.Pool) (bool, error) {
	var yes bool
	err := pool.QueryRow(ctx, `SELECT coalesce(
    (SELECT pg_has_role(n.nspowner, 'USAGE') FROM pg_namespace n WHERE n.nspname = 'queen'),
    has_database_privilege(current_database(), 'CREATE'))`).Scan(&yes)
	if err != nil {
		return false, pg.Wrap("ask who owns the schema", err)
	}
	return yes, nil
}
