package main

import (
	"errors"
	"net/http"
	"testing"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/testkit"
)

// many makes a queue of n partitions, each with a message that nobody will read.
func (b *bundle) many(n int) {
	b.t.Helper()
	b.push("q", "first", "old")
	b.exec(`INSERT INTO queen.partitions (queue_id, name, last_offset) SELECT id, 'p' || g, 0 FROM queen.queues, generate_series(2, $1::integer) g`, n)
}

// stopAt has whoever writes a cursor in a partition from the nth on wait for release.
func (b *bundle) stopAt(n int) (release func()) {
	b.t.Helper()
	release = testkit.HoldKey(b.t, b.database.Pool, 77)
	b.exec(`CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(77); RETURN NEW; END $$`)
	var from string
	if err := b.database.Pool.QueryRow(b.t.Context(), `SELECT p.id::text FROM queen.partitions p ORDER BY p.id OFFSET $1 LIMIT 1`, n).Scan(&from); err != nil {
		b.t.Fatal(err)
	}
	b.exec(`CREATE TRIGGER stop BEFORE INSERT ON queen.cursors FOR EACH ROW WHEN (NEW.partition_id >= ` + from + `) EXECUTE FUNCTION stop()`)
	return release
}

func TestFirstContact_ThatTakesTooLongSaysHowFarItIs(t *testing.T) {
	t.Parallel()
	const missing = `{"error":"the group is being registered: 2000 of 2501 partitions are done"}`
	for name, path := range map[string]string{
		"of a queue": "/queue/q?consumerGroup=g&subscriptionMode=new", "of a namespace": "?namespace=q&consumerGroup=g&subscriptionMode=new",
		"at a time": "/queue/q?consumerGroup=g&subscriptionFrom=2099-01-01T00:00:00Z", "that waits": "/queue/q?consumerGroup=g&subscriptionMode=new&wait=true",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.many(2501)
			release := b.stopAt(2000)
			status, header, body, err := b.do(t.Context(), http.MethodGet, "/api/v1/pop"+path, "")
			if err != nil || status != http.StatusServiceUnavailable || string(body) != missing || header.Get("Retry-After") != "1" {
				t.Errorf("%d %s, after %q: %v", status, body, header.Get("Retry-After"), err)
			}
			release()
			other := start(t, b.database.Config, func(*settings) {})
			if got, err := other.pop(path + "&timeout=1"); err != nil || got.Status != http.StatusNoContent {
				t.Errorf("the next pop: %d %s, %v", got.Status, got.Raw, err)
			}
			b.push("q", "first", "new")
			if got, err := b.pop(path); err != nil || got.ids() != "new" {
				t.Errorf("%d %s, %v", got.Status, got.Raw, err)
			}
		})
	}
}

// A pop by partition gets its place at once, and one that parks is not woken by what the group skips.
func TestFirstContact_APinnedPopDoesNotWaitForIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.many(1500)
	_, err := group.New(b.database.Pool).Subscribe(t.Context(), queue.DefaultTenant, "q", "g", group.Start{Mode: "new"})
	if !errors.As(err, new(*group.Seeding)) {
		t.Fatal(err)
	}
	b.mustPop(http.StatusNoContent, "/queue/q/partition/p1400?consumerGroup=g&subscriptionMode=all")
	b.push("q", "p1400", "a")
	if got := b.mustPop(http.StatusOK, "/queue/q/partition/p1400?consumerGroup=g"); got.ids() != "a" {
		t.Errorf("%s", got.Raw)
	}
}
