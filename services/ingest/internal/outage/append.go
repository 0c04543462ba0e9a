package outage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/schema"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/log"
	"queen.internal/services/ingest/internal/spool"
	"queen.internal/services/ingest/internal/spool/record"
)

// ErrNotSpooled is in the chain of a group's error that could be stored neither in the database nor in the spool.
var ErrNotSpooled = errors.New("not spooled")

// ErrMaintenance is in the chain of a group's error that was to be spooled because push maintenance is on.
var ErrMaintenance = errors.New("push maintenance")

// Append appends groups, whose keys are distinct and of which no other call has any, to the log or to the spool. What is
// spooled has outcomes that say so. Errors are those of the log, for what a client should do something about; see the
// package comment.
func (g *Guard) Append(ctx context.Context, groups []appendlog.Group) []appendlog.Result {
	results := make([]appendlog.Result, len(groups))
	held := g.o.Held()
	direct, spooled := g.route(groups, held)
	if len(spooled) > 0 {
		g.spool(groups, results, spooled, held)
	}
	if len(direct) > 0 {
		if rest := g.append(ctx, groups, results, direct); len(rest) > 0 {
			g.spool(groups, results, rest, false)
		}
	}
	return results
}

// append tries the groups at the given places and returns those that have to be spooled.
func (g *Guard) append(ctx context.Context, groups []appendlog.Group, results []appendlog.Result, places []int) (rest []int) {
	if err := g.o.Ready(); err != nil {
		if !g.answers(ctx) {
			return places
		}
		for _, i := range places {
			results[i].Err = queue.Unavailable("PostgreSQL cannot take pushes yet: "+reason(err), pg.RetryAfter, err)
		}
		return nil
	}
	chosen := make([]appendlog.Group, len(places))
	for i, place := range places {
		chosen[i] = groups[place]
	}
	watch := time.AfterFunc(slowAppend, g.doubt)
	got := g.o.Log.Append(ctx, chosen)
	watch.Stop()
	answers := sync.OnceValue(func() bool { return g.answers(ctx) })
	for i, place := range places {
		results[place] = got[i]
		if got[i].Err != nil && g.shelters(got[i].Err, answers) {
			rest = append(rest, place)
		}
	}
	return rest
}

// reason is what a client may read of why the schema is not there.
func reason(err error) string {
	var missing *schema.MissingError
	if errors.As(err, &missing) {
		return missing.Error()
	}
	return "its schema is being looked at"
}

// shelters says whether a group with that error is spooled: its outcome is not known, or the database is not there. An
// error of the input, and one that a client had better meet by trying again, stays.
func (g *Guard) shelters(err error, answers func() bool) bool {
	switch {
	case queue.KindOf(err) == queue.KindUnknown:
		g.doubt()
		return true
	case queue.KindOf(err) != queue.KindUnavailable:
		return false
	case !answers():
		return true
	}
	// It answers: too many want it, a lock is in the way, or its schema is being changed.
	return !errors.Is(err, log.ErrNotSent) && !log.Contended(err) && !pg.SchemaMissing(err)
}

// spool stores the groups at the given places. held says that it does so because of push maintenance.
func (g *Guard) spool(groups []appendlog.Group, results []appendlog.Result, places []int, held bool) {
	var records []*record.Record
	var stored []int
	for _, i := range places {
		if g.o.NoSpool(groups[i].Key.Tenant, groups[i].Key.Queue) {
			results[i] = refused(results[i], unavailable(held, fmt.Sprintf("and queue %q is not spooled", groups[i].Key.Queue), nil))
			continue
		}
		records, stored = append(records, recordOf(&groups[i], &results[i])), append(stored, i)
	}
	if len(records) == 0 {
		return
	}
	for n, err := range g.shelve(records) {
		i := stored[n]
		if err != nil {
			results[i] = refused(results[i], notSpooled(held, err))
			continue
		}
		results[i] = buffered(&groups[i], &results[i])
	}
}

// recordOf is what is spooled of a group: what an attempt of unknown outcome has left open, else all of it.
func recordOf(group *appendlog.Group, result *appendlog.Result) *record.Record {
	r := &record.Record{Group: *group, At: time.Now()}
	if a := result.Attempt; a != nil {
		r.Tag, r.Attempted = a.Tag, true
		r.Messages = make([]segment.Message, len(a.Places))
		for i, place := range a.Places {
			r.Messages[i] = group.Messages[place]
		}
	}
	return r
}

// buffered is the result of a group whose record is stored: the messages that an attempt found to be duplicates stay that.
func buffered(group *appendlog.Group, result *appendlog.Result) appendlog.Result {
	outcomes := make([]appendlog.Outcome, len(group.Messages))
	if result.Attempt != nil {
		copy(outcomes, result.Outcomes)
	}
	for i := range outcomes {
		if !outcomes[i].Duplicate {
			outcomes[i] = appendlog.Outcome{MessageID: group.Messages[i].ID, Buffered: true}
		}
	}
	return appendlog.Result{Outcomes: outcomes}
}

// refused is the result of a group that is not spooled. That it may be committed matters more than why.
func refused(result appendlog.Result, err error) appendlog.Result {
	if queue.KindOf(result.Err) == queue.KindUnknown {
		return appendlog.Result{Err: result.Err}
	}
	return appendlog.Result{Err: errors.Join(err, result.Err)}
}

func notSpooled(held bool, err error) error {
	cause := fmt.Errorf("%w: %w", ErrNotSpooled, err)
	if errors.Is(err, spool.ErrFull) {
		return unavailable(held, "and the spool is full", cause)
	}
	return unavailable(held, "and the spool cannot take the push", cause)
}

// unavailable tells why the database is not asked, and what else is in the way.
func unavailable(held bool, besides string, cause error) error {
	why := "PostgreSQL cannot take the push"
	if held {
		why = "push maintenance is on"
		cause = errors.Join(ErrMaintenance, cause)
	}
	return &queue.Error{Kind: queue.KindUnavailable, RetryAfter: pg.RetryAfter, Message: why + ", " + besides, Err: cause}
}
