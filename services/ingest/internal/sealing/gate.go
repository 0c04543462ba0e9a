package sealing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/seal"
	"queen.internal/pkg/store/log"
)

// Push is what a batcher does: one result per group, or an error when nothing was accepted.
type Push func(ctx context.Context, groups []appendlog.Group) ([]appendlog.Result, error)

// ErrNoKey is in the chain of a group's error whose queue has encryption on while this server has no key. Nothing of the
// group was stored, and a repeat changes nothing.
var ErrNoKey = errors.New("no key to encrypt with")

// Away is what is known without the database.
type Away struct {
	Down      func() bool                              // the database is known not to answer
	Encrypted func(tenant uuid.UUID, name string) bool // the queue has encryption on, as far as is known
}

// Gate encrypts what has to be and passes everything on. Make it with New; it is safe for concurrent use.
type Gate struct {
	keys  *seal.Keys
	flags *flags
	away  Away
	next  Push
}

// New returns a Gate that seals with keys, which may be unable to, asks lookup for the flags of queues, or away when it
// gets no answer, and pushes to next.
func New(keys *seal.Keys, lookup Lookup, away Away, next Push) *Gate {
	return &Gate{keys: keys, flags: newFlags(lookup, time.Now), away: away, next: next}
}

// Push is next's Push, behind the gate. It replaces payloads in groups, whose messages are the caller's again when it
// returns. An error means that nothing was stored.
func (g *Gate) Push(ctx context.Context, groups []appendlog.Group) ([]appendlog.Result, error) {
	encrypted, err := g.encrypted(ctx, groups)
	if err != nil {
		return nil, err
	}
	began := g.flags.now()
	results, open := make([]appendlog.Result, len(groups)), make([]int, 0, len(groups))
	for i := range groups {
		if encrypted[i] && !g.seal(&groups[i], &results[i]) {
			continue
		}
		open = append(open, i)
	}
	if err := g.send(ctx, groups, results, open); err != nil {
		return nil, err
	}
	var again []int
	for _, i := range open {
		switch {
		case errors.Is(results[i].Err, appendlog.ErrMustSeal):
			g.flags.learn(queueOf(&groups[i]), true, g.flags.now())
			if g.seal(&groups[i], &results[i]) {
				again = append(again, i)
			}
		case results[i].Err == nil && !groups[i].Sealed && g.keys.CanSeal():
			g.flags.learn(queueOf(&groups[i]), false, began) // append has looked after that
		}
	}
	if err := g.send(ctx, groups, results, again); err != nil {
		for _, i := range again {
			results[i] = appendlog.Result{Err: err}
		}
	}
	return results, nil
}

// Forget drops what is remembered of a queue whose name may stand for another one now.
func (g *Gate) Forget(tenant uuid.UUID, name string) {
	g.flags.facts.Remove(log.Queue{Tenant: tenant, Name: name})
}

// encrypted says of each group whether its queue has encryption on, as far as is known. Without a key only what append
// has told counts, and while the database is away what is known without it.
func (g *Gate) encrypted(ctx context.Context, groups []appendlog.Group) ([]bool, error) {
	queues := make([]log.Queue, len(groups))
	for i := range groups {
		queues[i] = queueOf(&groups[i])
	}
	if g.away.Down() {
		return g.known(queues), nil
	}
	if !g.keys.CanSeal() {
		answers, _ := g.flags.remembered(queues)
		return answers, nil
	}
	answers, err := g.flags.of(ctx, queues)
	if queue.KindOf(err) == queue.KindUnavailable && ctx.Err() == nil {
		// What becomes of the push is decided further on. Should it be spooled plain, its record is sealed as a whole, and
		// its payloads before they are appended.
		return g.known(queues), nil
	}
	return answers, err
}

// known says of each queue what was known of it last.
func (g *Gate) known(queues []log.Queue) []bool {
	encrypted := make([]bool, len(queues))
	for i, q := range queues {
		if fact, ok := g.flags.facts.Peek(q); ok {
			encrypted[i] = fact.encrypted
		} else {
			encrypted[i] = g.away.Encrypted(q.Tenant, q.Name)
		}
	}
	return encrypted
}

// seal encrypts the payloads of a group and marks it; without a key it is false and the group's result says so.
func (g *Gate) seal(group *appendlog.Group, result *appendlog.Result) bool {
	if !g.keys.CanSeal() {
		*result = appendlog.Result{Err: &queue.Error{
			Kind: queue.KindInvalid, Field: "queue", Err: ErrNoKey,
			Message: fmt.Sprintf("queue %q has encryption on and this server has no key (QUEEN_ENCRYPTION_KEY)", group.Key.Queue),
		}}
		return false
	}
	for i := range group.Messages {
		m := &group.Messages[i]
		m.Payload = g.keys.Seal(m.Payload)
	}
	group.Sealed = true
	return true
}

// send pushes the groups at the given places and puts their results there. An error means that none was accepted.
func (g *Gate) send(ctx context.Context, groups []appendlog.Group, results []appendlog.Result, places []int) error {
	if len(places) == 0 {
		return nil
	}
	chosen := groups
	if len(places) < len(groups) {
		chosen = make([]appendlog.Group, len(places))
		for i, place := range places {
			chosen[i] = groups[place]
		}
	}
	got, err := g.next(ctx, chosen)
	if err != nil {
		return err
	}
	for i, place := range places {
		results[place] = got[i]
	}
	return nil
}

func queueOf(g *appendlog.Group) log.Queue { return log.Queue{Tenant: g.Key.Tenant, Name: g.Key.Queue} }
