package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/auth"
	"queen.internal/pkg/config"
	"queen.internal/pkg/httpd"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/testkit"
	"queen.internal/services/ingest/internal/room"
	"queen.internal/services/ingest/internal/sealing"
)

// pushing gives the handlers a Push of the test's own.
func pushing(push sealing.Push) func(*service, *httpd.Options) {
	return func(_ *service, o *httpd.Options) {
		o.Handlers = (&API{Push: push, Room: room.New(1<<20, 0), Ready: func() error { return nil }}).Handlers()
	}
}

func TestPush_ItemsTellThatThereIsNoKey(t *testing.T) {
	t.Parallel()
	noKey := &queue.Error{Kind: queue.KindInvalid, Message: "no key here", Err: sealing.ErrNoKey}
	away := queue.Unavailable("away", time.Second, nil)
	for name, test := range map[string]struct {
		errs   map[string]error // by queue
		status int
		want   []string
	}{
		"All":                  {map[string]error{"a": noKey, "b": noKey}, 201, []string{"0 a/x failed", "1 b/y failed"}},
		"Some":                 {map[string]error{"a": noKey}, 201, []string{"0 a/x failed", "1 b/y queued"}},
		"OthersShouldComeBack": {map[string]error{"a": noKey, "b": away}, 503, nil},
		"OthersAreBadInput":    {map[string]error{"a": queue.Invalid("queue", "bad"), "b": noKey}, 201, []string{"0 a/x failed", "1 b/y failed"}},
	} {
		s := serve(t, pushing(func(_ context.Context, groups []appendlog.Group) ([]appendlog.Result, error) {
			results := make([]appendlog.Result, len(groups))
			for i, g := range groups {
				if results[i].Err = test.errs[g.Key.Queue]; results[i].Err == nil {
					results[i].Outcomes = []appendlog.Outcome{{MessageID: g.Messages[0].ID}}
				}
			}
			return results, nil
		}))
		w := s.push(`{"items":[{"queue":"a","transactionId":"x","payload":1},{"queue":"b","transactionId":"y","payload":2}]}`)
		if w.Code != test.status {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
			continue
		}
		if test.want == nil {
			continue
		}
		results := decode(t, w)
		if diff := cmp.Diff(test.want, statuses(results)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		for i, r := range results {
			if errors.Is(test.errs[r.Queue], sealing.ErrNoKey) && (r.Error == nil || !strings.Contains(*r.Error, "no key here")) {
				t.Errorf("%s: item %d does not say why: %s", name, i, w.Body)
			}
		}
	}
}

func TestPush_ProducerIsWhoTheTokenSays(t *testing.T) {
	t.Parallel()
	const secret = "secret"
	settings := config.NewAuth()
	settings.Enabled, settings.Secret = true, secret
	for name, test := range map[string]struct {
		auth  *auth.Verifier
		token string
		want  string
	}{
		"Verified":      {auth.FromSettings(settings, slog.New(slog.DiscardHandler)), testkit.RoleToken(t, secret, "write-only", "svc"), "svc"},
		"WithoutASub":   {auth.FromSettings(settings, slog.New(slog.DiscardHandler)), testkit.RoleToken(t, secret, "write-only", ""), ""},
		"NobodyChecked": {nil, testkit.RoleToken(t, secret, "write-only", "svc"), ""},
	} {
		s := serve(t, func(_ *service, o *httpd.Options) { o.Auth = test.auth })
		w := s.push(`{"items":[{"queue":"q","payload":1,"producerSub":"mallory"},{"queue":"r","producerSub":null,"payload":2}]}`,
			"Authorization", "Bearer "+test.token)
		if w.Code != http.StatusCreated {
			t.Fatalf("%s: %d %s", name, w.Code, w.Body)
		}
		for _, g := range s.ledger.stored {
			if got := g.Messages[0].ProducerSub; got != test.want {
				t.Errorf("%s: stored %q, want %q", name, got, test.want)
			}
		}
		if len(s.ledger.stored) != 2 {
			t.Errorf("%s: %d groups are stored", name, len(s.ledger.stored))
		}
	}
}
