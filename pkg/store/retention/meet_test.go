package retention_test

import (
	"context"
	"errors"
	"testing"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/retention"
	"queen.internal/pkg/store/task"
	"queen.internal/pkg/testkit"
)

// What cuts a log meets others at every point where they could hurt each other: the other one's transaction stands still
// there, by hand.

func TestCutMeetsAPush(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("q", "p", 2)
	other := b.push("q", "other", 2)
	id := b.rules(`retention_seconds = 60`)
	push, err := b.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := push.Exec(t.Context(), `SELECT FROM queen.partitions WHERE id = $1 FOR NO KEY UPDATE`, p.ID); err != nil {
		t.Fatal(err)
	}
	if c := b.cut(id); c.Busy != 1 || c.Cut != 1 || c.Aged != 2 {
		t.Errorf("%+v: it waits for a push, or lets the other partition wait", c)
	}
	if n := b.value(`SELECT log_start FROM queen.partitions WHERE id = $1`, other.ID); n != 2 {
		t.Errorf("the other log begins at %d", n)
	}
	if err := push.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := b.cut(id); c.Busy != 0 || c.Cut != 1 {
		t.Errorf("%+v", c)
	}
}

func TestCutMeetsAClaim(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("q", "p", 2)
	sub := b.subscribe("q", "g")
	b.consume(sub, p, 1, true)
	id := b.rules(`retention_seconds = 60`)
	claim, err := b.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := claim.Exec(t.Context(), `SELECT * FROM queen.claim($1, $2, ARRAY[$3::bigint], gen_random_uuid(), 3600, 1, NULL, 1000, false, NULL, true)`,
		sub.ID, sub.UID.String(), p.ID); err != nil {
		t.Fatal(err)
	}
	if c := b.cut(id); c.Cut != 0 || c.Looked != 1 {
		t.Errorf("%+v under a claim that has not ended", c)
	}
	if err := claim.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.exec(`UPDATE queen.retained SET segments_since = segments_since - interval '1 h'`)
	if c := b.cut(id); c.Cut != 0 || c.Looked != 1 {
		t.Errorf("%+v under a live lease", c)
	}
	b.exec(`UPDATE queen.cursors SET lease_expires_at = now() - interval '1 min'`)
	b.exec(`UPDATE queen.retained SET segments_since = segments_since - interval '1 h'`)
	if c := b.cut(id); c.Cut != 1 || c.Aged != 2 || c.Unread != 1 {
		t.Errorf("%+v after the lease", c)
	}
}

// A claim that comes while the cut is not committed finds its cursor locked, and afterwards the new start.
func TestAClaimMeetsACut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("q", "p", 2)
	sub := b.subscribe("q", "g")
	b.consume(sub, p, 1, true)
	id := b.rules(`retention_seconds = 60`)
	cut, err := b.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cut.Exec(t.Context(), `SELECT * FROM queen.cut_logs($1, $2, $3, '-infinity', 0, 10)`, b.hold.Task, b.hold.Fence, id); err != nil {
		t.Fatal(err)
	}
	if c := b.consume(sub, p, 1, false); c.Verdict != group.Busy {
		t.Errorf("%+v while the cut is under way", c)
	}
	if err := cut.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := b.consume(sub, p, 1, false); c.Verdict != group.Empty {
		t.Errorf("%+v after the cut", c)
	}
	b.push("q", "p", 1)
	if c := b.consume(sub, p, 1, false); c.Verdict != group.Took || c.First != 2 {
		t.Errorf("%+v of what came later", c)
	}
}

// A group that registers while the completed messages are being cut waits, and begins at what is left.
func TestARegistrationMeetsACut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.push("q", "p", 2)
	b.consume(b.subscribe("q", "g"), p, 2, true)
	b.push("q", "p", 1)
	id := b.rules(`completed_retention_seconds = 60`)
	cut, err := b.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cut.Exec(t.Context(), `SELECT * FROM queen.cut_logs($1, $2, $3, '-infinity', 0, 10)`, b.hold.Task, b.hold.Fence, id); err != nil {
		t.Fatal(err)
	}
	pool := testkit.Pool(t, b.db.Config, "registers", 1)
	registered := make(chan error, 1)
	var sub group.Subscription
	go func() {
		var err error
		sub, err = group.New(pool).Subscribe(context.WithoutCancel(t.Context()), queue.DefaultTenant, "q", "late", group.Start{Mode: "all"})
		registered <- err
	}()
	testkit.AwaitBlocked(t, b.db.Pool, "registers")
	if err := cut.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-registered; err != nil {
		t.Fatal(err)
	}
	if c := b.consume(sub.Ref, p, 10, false); c.Verdict != group.Took || c.First != 2 || c.Last != 2 {
		t.Errorf("the late group gets %+v", c)
	}
	// And from now on it holds what the other completes.
	b.exec(`UPDATE queen.retained SET segments_since = segments_since - interval '1 h'`)
	if c := b.cut(id); c.Cut != 0 {
		t.Errorf("%+v", c)
	}
	if n := b.value(`SELECT count(*) FROM queen.retained r JOIN queen.subscriptions s ON s.id = r.held_by AND s.group_name = 'late' WHERE r.held_since < now()`); n != 1 {
		t.Error("it is not named as the one who holds it up")
	}
}

// A push that wakes an empty partition, and the removal that is about to find it empty, in either order.
func TestAPushMeetsTheRemovalOfHashes(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"the push", "the removal"} {
		t.Run(first+" comes first", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.push("q", "p", 1)
			b.exec(`UPDATE queen.dedup SET created_at = created_at - interval '2 h'`)
			b.exec(`UPDATE queen.segments SET created_at = created_at - interval '2 h'`)
			b.exec(`UPDATE queen.partitions SET last_created_at = last_created_at - interval '2 h'`)
			b.exec(`UPDATE queen.retained SET hashes_since = hashes_since - interval '2 h'`)
			id := b.value(`SELECT id FROM queen.queues`)
			const appendSQL = `SELECT queen.append(ARRAY[$1::bigint], ARRAY[$2::uuid], ARRAY[7::bigint], ARRAY[1], ARRAY[1], ARRAY[1::smallint], ARRAY['\x00'::bytea],
				ARRAY[gen_random_uuid()], true, false)`
			held, err := b.db.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			if first == "the push" {
				if _, err := held.Exec(t.Context(), appendSQL, p.ID, p.UID.String()); err != nil {
					t.Fatal(err)
				}
				// It passes by what is locked.
				if _, _, _, err := b.store.RemoveHashes(t.Context(), b.hold, id, retention.Position{}, 10, 10); err != nil {
					t.Fatal(err)
				}
				done <- nil
			} else {
				if _, err := held.Exec(t.Context(), `SELECT * FROM queen.remove_hashes($1, $2, $3, '-infinity', 0, 10, 10)`, b.hold.Task, b.hold.Fence, id); err != nil {
					t.Fatal(err)
				}
				pool := testkit.Pool(t, b.db.Config, "pushes", 1)
				go func() {
					_, err := pool.Exec(context.WithoutCancel(t.Context()), appendSQL, p.ID, p.UID.String())
					done <- err
				}()
				testkit.AwaitBlocked(t, b.db.Pool, "pushes")
			}
			if err := held.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if n := b.value(`SELECT count(*) FROM queen.retained r JOIN queen.dedup d ON d.partition_id = r.partition_id WHERE r.hashes_since <= d.created_at`); n < 1 {
				t.Error("the new hashes are not noted")
			}
		})
	}
}

func TestWhoWasReplacedCutsAndDeletesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", 2)
	id := b.rules(`retention_seconds = 60`)
	old := b.hold
	b.hold = b.take()
	steps := map[string]func(task.Hold) error{
		"cut": func(h task.Hold) error {
			_, err := b.store.Cut(t.Context(), h, id, retention.Position{}, 10)
			return err
		},
		"remove segments": func(h task.Hold) error { _, err := b.store.RemoveSegments(t.Context(), h, id, 10); return err },
		"remove hashes": func(h task.Hold) error {
			_, _, _, err := b.store.RemoveHashes(t.Context(), h, id, retention.Position{}, 10, 10)
			return err
		},
		"remove idle partitions": func(h task.Hold) error {
			_, _, err := b.store.RemoveIdlePartitions(t.Context(), h, 0, 10)
			return err
		},
		"remove cursors":       func(h task.Hold) error { _, _, err := b.store.RemoveOrphanCursors(t.Context(), h, 0, 10); return err },
		"expire dead letters":  func(h task.Hold) error { _, err := b.store.ExpireDeadLetters(t.Context(), h, 0, 10); return err },
		"remove history":       func(h task.Hold) error { _, err := b.store.RemoveHistory(t.Context(), h, 0, 10); return err },
		"forget deleted ones":  func(h task.Hold) error { _, err := b.store.ForgetDeletedQueues(t.Context(), h, 0, 10); return err },
		"remove transactions":  func(h task.Hold) error { _, err := b.store.RemoveTransactions(t.Context(), h, 0, 10); return err },
		"reap a deleted queue": func(h task.Hold) error { _, _, err := b.store.Reap(t.Context(), h, id, 10); return err },
	}
	for name, step := range steps {
		if err := step(old); !errors.Is(err, task.ErrReplaced) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := b.value(`SELECT count(*) FROM queen.segments`); n != 1 || b.value(`SELECT max(log_start) FROM queen.partitions`) != 0 {
		t.Error("something has changed")
	}
	for name, step := range steps {
		if err := step(b.hold); err != nil {
			t.Errorf("%s by the holder: %v", name, err)
		}
	}
}
