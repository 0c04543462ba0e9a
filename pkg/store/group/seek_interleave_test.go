package group_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/testkit"
)

// seeking is a seek over the queue that is under way.
func (b *bench) seeking(to *time.Time) <-chan int {
	done := make(chan int, 1)
	go func() {
		seek, found, err := b.group.BeginSeek(b.Context(), queue.DefaultTenant, "q", "g", to)
		if err != nil || !found {
			b.Error(found, err)
		}
		_, placed, _, err := b.group.SeekPage(b.Context(), seek, 0, 100)
		if err != nil {
			b.Error(err)
		}
		done <- placed
	}()
	return done
}

func TestSeekThatWaitedForAnAckComesAfterIt(t *testing.T) {
	t.Parallel()
	b, slow := two(t)
	p := b.push("p", "1", "2", "3")
	sub := b.subscribe("g", all)
	lease, c := b.take(sub, 2, p)
	release := testkit.Brake(t, b.pool, "slow", "AFTER UPDATE", "queen.cursors")
	acked := slow.acking(c, lease, "1", "2")
	testkit.AwaitBlocked(t, b.pool, "slow")
	seeker := b.bystander(b.config(), "seeker")
	placed := seeker.seeking(nil)
	testkit.AwaitBlocked(t, b.pool, "seeker")
	b.push("p", "4") // the seek's statement began before
	release()
	if r := <-acked; !r.LeaseReleased || r.Committed != 1 {
		t.Errorf("the ack: %+v", r)
	}
	if n := <-placed; n != 1 || b.committed(sub, p) != 3 {
		t.Errorf("%d placed, the cursor is at %d: the end of before the wait is not the end", n, b.committed(sub, p))
	}
}

func TestSeekIsNotUndoneByAnAckThatWaited(t *testing.T) {
	t.Parallel()
	b, slow := two(t)
	p := b.push("p", "1", "2", "3")
	sub := b.subscribe("g", all)
	lease, c := b.take(sub, 2, p)
	epoch := time.Unix(0, 0)
	release := testkit.Brake(t, b.pool, "slow", "AFTER UPDATE", "queen.cursors")
	placed := slow.seeking(&epoch)
	testkit.AwaitBlocked(t, b.pool, "slow")
	acker := b.bystander(b.config(), "acker")
	acked := acker.acking(c, lease, "1", "2")
	testkit.AwaitBlocked(t, b.pool, "acker")
	_, claims := b.claim(sub, 10, p)
	b.want("a claim meanwhile", verdicts(claims), group.Busy)
	release()
	if r := <-acked; r.LeaseReleased || r.Items[0] != stale || r.Items[1] != stale {
		t.Errorf("the ack: %+v", r)
	}
	if n := <-placed; n != 1 || b.committed(sub, p) != -1 {
		t.Errorf("%d placed, the cursor is at %d", n, b.committed(sub, p))
	}
	if _, again := b.take(sub, 10, p); again.First != 0 || again.Last != 2 || again.Attempt != 1 {
		t.Errorf("%+v", again)
	}
}

func TestSeekAndAFirstClaimMeetOnTheSameMissingCursor(t *testing.T) {
	t.Parallel()
	b, slow := two(t)
	p := b.push("p", "1", "2")
	sub := b.subscribe("g", all)
	release := testkit.Brake(t, b.pool, "slow", "AFTER INSERT", "queen.cursors")
	req := request(sub, p)
	claimed := slow.claiming(req)
	testkit.AwaitBlocked(t, b.pool, "slow")
	seeker := b.bystander(b.config(), "seeker")
	placed := seeker.seeking(nil)
	testkit.AwaitBlocked(t, b.pool, "seeker")
	release()
	b.want("the claim", <-claimed, group.Took)
	if n := <-placed; n != 1 || b.committed(sub, p) != 1 {
		t.Errorf("%d placed, the cursor is at %d", n, b.committed(sub, p))
	}
	_, claims := b.claim(sub, 10, p)
	b.want("afterwards", verdicts(claims), group.Empty)
}

func TestDeleteBesideAClaimLeavesNothingThatCounts(t *testing.T) {
	t.Parallel()
	b, slow := two(t)
	p := b.push("p", "1", "2")
	b.push("other", "1")
	old := b.subscribe("g", all)
	release := testkit.Brake(t, b.pool, "slow", "AFTER INSERT", "queen.cursors")
	req := request(old, p)
	claimed := slow.claiming(req)
	testkit.AwaitBlocked(t, b.pool, "slow")
	ended, err := b.group.Delete(t.Context(), queue.DefaultTenant, "g", nil, false) // waits for nobody
	if err != nil || len(ended) != 1 || ended[0] != (group.Ended{Subscription: old.ID, Queue: "q"}) {
		t.Fatal(ended, err)
	}
	release()
	b.want("the claim that came first", <-claimed, group.Took)
	_, claims := b.claim(old, 10, p)
	b.want("a claim under the old identity", verdicts(claims), group.Gone)
	again := b.subscribe("g", all)
	if again == old {
		t.Fatal("the identity is the same")
	}
	_, c := b.take(again, 10, p)
	if extension, err := b.group.Extend(t.Context(), queue.DefaultTenant, req.Lease, 60, group.Bounds{}, nil); err != nil || extension.Renewed != 0 {
		t.Errorf("the dead lease is renewed: %+v, %v", extension, err)
	}
	if r := b.ack("g", c, &req.Lease, "1"); r.Items[0] != stale {
		t.Errorf("an ack under the dead lease: %+v", r)
	}
	for _, want := range []int{1, 0} {
		if _, dropped, _, err := b.group.DropCursors(t.Context(), old.ID, 0, 10); err != nil || dropped != want {
			t.Errorf("%d cursors dropped, want %d, %v", dropped, want, err)
		}
	}
	if _, dropped, _, err := b.group.DropCursors(t.Context(), again.ID, 0, 10); err != nil || dropped != 0 {
		t.Errorf("%d cursors of a living group dropped, %v", dropped, err)
	}
}

func TestDeleteWaitsForASeekAndASeekFindsTheGroupGone(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]bool{"WithMetadata": false, "WithoutMetadata": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, slow := two(t)
			b.push("p", "1", "2")
			old := b.subscribe("g", fresh)
			seek, _, err := b.group.BeginSeek(t.Context(), queue.DefaultTenant, "q", "g", nil)
			if err != nil {
				t.Fatal(err)
			}
			release := testkit.Brake(t, b.pool, "slow", "AFTER UPDATE", "queen.cursors")
			placed := slow.seeking(nil)
			testkit.AwaitBlocked(t, b.pool, "slow")
			deleter := b.bystander(b.config(), "deleter")
			done := make(chan []group.Ended, 1)
			go func() {
				ended, err := deleter.group.Delete(t.Context(), queue.DefaultTenant, "g", nil, keep)
				if err != nil {
					t.Error(err)
				}
				done <- ended
			}()
			testkit.AwaitBlocked(t, b.pool, "deleter")
			release()
			if n := <-placed; n != 1 {
				t.Errorf("%d placed", n)
			}
			if ended := <-done; len(ended) != 1 || ended[0].Subscription != old.ID {
				t.Errorf("ended %+v", ended)
			}
			if n := b.finish(seek, 10); n != 0 {
				t.Errorf("%d cursors of a group that is gone were placed", n)
			}
			again, want := b.subscribe("g", fresh), 0
			if keep {
				want = 1 // everything from the start, whatever the registration began with
			}
			if got := b.candidates(again); again == old || len(got) != want {
				t.Errorf("%v was %v, work in %v", again, old, got)
			}
		})
	}
}

// Rule 2, with the changes of groups among the rest.
func TestRule2GroupChangesNeverDeadlock(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	impatient(t, db.Pool, db.Config.Database)
	c := &crowd{t: t}
	cfg := db.Config
	cfg.LockTimeout = 20 * time.Second
	pool := testkit.Pool(t, cfg, "changes", 3)
	b := &bench{T: t, pool: pool, group: group.New(pool)}
	over := until(4 * time.Second)
	var workers sync.WaitGroup
	for w := range 3 {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 12))
			for !over() {
				c.change(b, r)
			}
		})
	}
	counted := c.run(db, over)
	workers.Wait()
	pool.Close()
	testkit.AwaitGone(t, db.Pool, "changes")
	counted = max(counted, testkit.Deadlocks(t, db.Pool))
	var beyond int
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM queen.cursors c JOIN queen.partitions p ON p.id = c.partition_id
		WHERE greatest(c.committed, c.batch_end) > p.last_offset`).Scan(&beyond); err != nil {
		t.Fatal(err)
	}
	if counted != 0 || c.deadlocks.Load() != 0 || beyond != 0 {
		t.Errorf("%d deadlocks counted by the server, %d seen, %d cursors beyond the end", counted, c.deadlocks.Load(), beyond)
	}
}

// change makes one change of a group that the crowd pops with.
func (c *crowd) change(b *bench, r *rand.Rand) {
	ctx, name, queueName := b.Context(), []string{"g0", "g1"}[r.IntN(2)], []string{"q0", "q1"}[r.IntN(2)]
	epoch := time.Unix(0, 0)
	to := []*time.Time{nil, &epoch}[r.IntN(2)]
	switch r.IntN(5) {
	case 0:
		seek, found, err := b.group.BeginSeek(ctx, queue.DefaultTenant, queueName, name, to)
		c.check(err)
		for after, more := int64(0), found; more && err == nil; {
			after, _, more, err = b.group.SeekPage(ctx, seek, after, 1+r.IntN(5))
			c.check(err)
		}
	case 1:
		_, _, err := b.group.SeekPartition(ctx, queue.DefaultTenant, queueName, []string{"p0", "p1", "p2", "p3"}[r.IntN(4)], name, to)
		c.check(err)
	case 2:
		_, err := b.group.ChangeSubscription(ctx, queue.DefaultTenant, name, epoch)
		c.check(err)
	case 3:
		_, _, _, err := b.group.AddDepth(ctx, &group.Depth{}, queue.DefaultTenant, queueName, nil, 0, 10, 10)
		c.check(err)
	default:
		ended, err := b.group.Delete(ctx, queue.DefaultTenant, name, nil, r.IntN(2) == 0)
		c.check(err)
		for _, e := range ended {
			_, _, _, err := b.group.DropCursors(ctx, e.Subscription, 0, 100)
			c.check(err)
		}
	}
}
