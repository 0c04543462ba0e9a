package sealing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.uber.org/goleak"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/seal"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/log"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var tenant = uuid.UUID{1}

// store is a database in memory: it takes only sealed payloads for the queues named in encrypted, as append does.
type store struct {
	encrypted map[string]bool
	fails     error // of lookups
	busy      func(attempt int) error

	lookups []string // the queues of each
	pushes  []string // the groups of each, such as "q:sealed r:plain"
	stored  map[string][]string
}

func (s *store) lookup(_ context.Context, queues []log.Queue) ([]log.Flags, error) {
	var names []string
	answers := make([]log.Flags, len(queues))
	for i, q := range queues {
		names = append(names, q.Name)
		answers[i].Encryption = s.encrypted[q.Name]
	}
	s.lookups = append(s.lookups, strings.Join(names, " "))
	return answers, s.fails
}

func (s *store) push(_ context.Context, groups []appendlog.Group) ([]appendlog.Result, error) {
	var names []string
	results := make([]appendlog.Result, len(groups))
	for _, g := range groups {
		names = append(names, g.Key.Queue+map[bool]string{true: ":sealed", false: ":plain"}[g.Sealed])
	}
	s.pushes = append(s.pushes, strings.Join(names, " "))
	if s.busy != nil {
		if err := s.busy(len(s.pushes)); err != nil {
			return nil, err
		}
	}
	for i, g := range groups {
		if s.encrypted[g.Key.Queue] && !g.Sealed {
			results[i].Err = fmt.Errorf("append: %w", appendlog.ErrMustSeal)
			continue
		}
		for _, m := range g.Messages {
			s.stored[g.Key.Queue] = append(s.stored[g.Key.Queue], string(m.Payload))
			results[i].Outcomes = append(results[i].Outcomes, appendlog.Outcome{MessageID: m.ID})
		}
	}
	return results, nil
}

func newStore(encrypted ...string) *store {
	s := &store{encrypted: map[string]bool{}, stored: map[string][]string{}}
	for _, name := range encrypted {
		s.encrypted[name] = true
	}
	return s
}

// saw compares what reached the store.
func (s *store) saw(t *testing.T, lookups, pushes []string) {
	t.Helper()
	if diff := cmp.Diff(lookups, s.lookups); diff != "" {
		t.Errorf("lookups: %s", diff)
	}
	if diff := cmp.Diff(pushes, s.pushes); diff != "" {
		t.Errorf("pushes: %s", diff)
	}
	s.lookups, s.pushes = nil, nil
}

func key(t *testing.T) *seal.Keys {
	t.Helper()
	k, err := seal.NewKeys(strings.Repeat("01", 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func group(name string, payloads ...string) appendlog.Group {
	g := appendlog.Group{Key: appendlog.Key{Tenant: tenant, Queue: name}}
	for _, p := range payloads {
		id := queue.NewID()
		g.Messages = append(g.Messages, segment.Message{ID: id, TransactionID: id.String(), Payload: []byte(p)})
	}
	return g
}

// here is a database that is not away.
var here = Away{Down: func() bool { return false }, Encrypted: func(uuid.UUID, string) bool { return false }}

// pushed pushes groups and fails the test unless all were stored.
func pushed(t *testing.T, g *Gate, groups ...appendlog.Group) {
	t.Helper()
	results, err := g.Push(t.Context(), groups)
	if err != nil {
		t.Fatal(err)
	}
	for i := range results {
		if results[i].Err != nil || len(results[i].Outcomes) != len(groups[i].Messages) || results[i].Outcomes[0].MessageID != groups[i].Messages[0].ID {
			t.Errorf("group %d: %+v", i, results[i])
		}
	}
}

func TestPush_SealsWhatMustBeAndNothingElse(t *testing.T) {
	t.Parallel()
	s, k := newStore("secret"), key(t)
	g := New(k, s.lookup, here, s.push)
	pushed(t, g, group("plain", `1`), group("secret", `{"a":1}`, `{"b":2}`))
	s.saw(t, []string{"plain secret"}, []string{"plain:plain secret:sealed"})
	if diff := cmp.Diff([]string{`1`}, s.stored["plain"]); diff != "" {
		t.Error(diff)
	}
	for i, want := range []string{`{"a":1}`, `{"b":2}`} {
		envelope := []byte(s.stored["secret"][i])
		if got, outcome := k.Open(envelope); outcome != seal.Opened || string(got) != want {
			t.Errorf("%s holds %s", envelope, got)
		}
	}
}

func TestPush_FollowsASwitchThatItDidNotSee(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		g := New(key(t), s.lookup, here, s.push)
		pushed(t, g, group("q", `1`))
		s.saw(t, []string{"q"}, []string{"q:plain"})

		s.encrypted["q"] = true
		pushed(t, g, group("q", `2`), group("other", `3`))
		s.saw(t, []string{"other"}, []string{"q:plain other:plain", "q:sealed"})
		pushed(t, g, group("q", `4`)) // it has learnt
		s.saw(t, nil, []string{"q:sealed"})

		s.encrypted["q"] = false
		pushed(t, g, group("q", `5`)) // sealed where it need not be: any reader opens it
		s.saw(t, nil, []string{"q:sealed"})
		time.Sleep(memory)
		pushed(t, g, group("q", `6`))
		s.saw(t, []string{"q"}, []string{"q:plain"})
		for i, want := range []bool{false, true, true, true, false} {
			if got := seal.IsEnvelope([]byte(s.stored["q"][i])); got != want {
				t.Errorf("payload %d is sealed: %v", i, got)
			}
		}
	})
}

func TestPush_LooksUpOnlyWhatItForgot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore("secret")
		g := New(key(t), s.lookup, here, s.push)
		pushed(t, g, group("busy", `1`), group("secret", `1`))
		s.saw(t, []string{"busy secret"}, []string{"busy:plain secret:sealed"})
		// Each plain push that was taken shows that the queue still takes them.
		for range 5 {
			time.Sleep(memory / 2)
			pushed(t, g, group("busy", `1`))
		}
		s.saw(t, nil, []string{"busy:plain", "busy:plain", "busy:plain", "busy:plain", "busy:plain"})
		pushed(t, g, group("secret", `1`)) // a sealed one shows nothing
		s.saw(t, []string{"secret"}, []string{"secret:sealed"})
		time.Sleep(memory)
		pushed(t, g, group("busy", `1`))
		s.saw(t, []string{"busy"}, []string{"busy:plain"})
	})
}

func TestPush_WithoutAKeyFailsOnlyTheGroupsThatNeedOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		retired, err := seal.NewKeys("", strings.Repeat("01", 32))
		if err != nil {
			t.Fatal(err)
		}
		for name, keys := range map[string]*seal.Keys{"none": nil, "only previous ones": retired} {
			s := newStore("secret")
			g := New(keys, s.lookup, here, s.push)
			refused := func() {
				t.Helper()
				results, err := g.Push(t.Context(), []appendlog.Group{group("secret", `1`), group("plain", `2`)})
				if err != nil || !errors.Is(results[0].Err, ErrNoKey) || results[1].Err != nil || len(results[1].Outcomes) != 1 {
					t.Errorf("keys %s: %+v, %v", name, results, err)
				}
				if text := results[0].Err.Error(); !strings.Contains(text, `queue "secret" has encryption on`) {
					t.Errorf("the reason is %s", text)
				}
			}
			refused()
			s.saw(t, nil, []string{"secret:plain plain:plain"})
			refused() // not even sent any more, for a moment
			s.saw(t, nil, []string{"plain:plain"})
			if results, err := g.Push(t.Context(), []appendlog.Group{group("secret", `1`)}); err != nil || !errors.Is(results[0].Err, ErrNoKey) {
				t.Errorf("%+v, %v", results, err)
			}
			s.saw(t, nil, nil)
			time.Sleep(memory)
			s.encrypted["secret"] = false
			pushed(t, g, group("secret", `1`))
			if len(s.stored["secret"]) != 1 {
				t.Errorf("stored %q", s.stored["secret"])
			}
		}
	})
}

func TestPush_TellsAFailedLookupAndPushesNothing(t *testing.T) {
	t.Parallel()
	s := newStore()
	s.fails = errors.New("a fault of ours")
	g := New(key(t), s.lookup, here, s.push)
	if results, err := g.Push(t.Context(), []appendlog.Group{group("q", `1`)}); !errors.Is(err, s.fails) || results != nil {
		t.Errorf("%+v, %v", results, err)
	}
	s.saw(t, []string{"q"}, nil)
	s.fails = nil
	pushed(t, g, group("q", `1`)) // nothing was learnt from the failure
	s.saw(t, []string{"q"}, []string{"q:plain"})
}

// The push is for the spool: what is known without the database decides.
func TestPush_GoesOnWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	s := newStore("remembered", "written-down")
	down := false
	away := Away{Down: func() bool { return down }, Encrypted: func(_ uuid.UUID, name string) bool { return name == "written-down" }}
	g := New(key(t), s.lookup, away, s.push)
	pushed(t, g, group("remembered", `1`))
	s.saw(t, []string{"remembered"}, []string{"remembered:sealed"})
	g.flags.now = func() time.Time { return time.Now().Add(time.Hour) } // what is remembered is old by now
	s.fails = queue.Unavailable("away", time.Second, nil)
	pushed(t, g, group("remembered", `1`), group("written-down", `1`), group("unknown", `1`))
	s.saw(t, []string{"remembered written-down unknown"}, []string{"remembered:sealed written-down:sealed unknown:plain"})
	down = true // and then nobody waits for an answer
	pushed(t, g, group("remembered", `1`), group("written-down", `1`), group("unknown", `1`))
	s.saw(t, nil, []string{"remembered:sealed written-down:sealed unknown:plain"})
}

func TestPush_TellsWhatTheBatcherRefuses(t *testing.T) {
	t.Parallel()
	full := queue.Overloaded("full", time.Second)
	s := newStore()
	s.busy = func(int) error { return full }
	g := New(key(t), s.lookup, here, s.push)
	if results, err := g.Push(t.Context(), []appendlog.Group{group("q", `1`)}); !errors.Is(err, full) || results != nil {
		t.Errorf("%+v, %v", results, err)
	}
	// On the second way there is something stored already: only what is on its way again fails.
	s = newStore()
	g = New(key(t), s.lookup, here, s.push)
	pushed(t, g, group("q", `1`), group("other", `1`))
	s.encrypted["q"] = true
	s.busy = func(attempt int) error { return map[int]error{3: full}[attempt] }
	results, err := g.Push(t.Context(), []appendlog.Group{group("q", `1`), group("other", `1`)})
	if err != nil || !errors.Is(results[0].Err, full) || results[1].Err != nil {
		t.Errorf("%+v, %v", results, err)
	}
}
