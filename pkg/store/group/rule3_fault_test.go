package group_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/testkit"
)

// Rule 3: at most one live lease per partition and group, expiry is judged by whoever claims, and a cursor never passes
// what is committed.

// bystander is a bench whose sessions are called name, beside another bench on the same database.
func (b *bench) bystander(cfg pg.Config, name string) *bench {
	pool := testkit.Pool(b.T, cfg, name, 1)
	return &bench{T: b.T, pool: pool, group: group.New(pool), log: log.New(pool), tag: 1 << 40}
}

// two are benches of one database whose sessions can be told apart.
func two(t *testing.T) (b, slow *bench) {
	t.Helper()
	db := pgtest.New(t)
	b = &bench{T: t, pool: db.Pool, group: group.New(db.Pool), log: log.New(db.Pool)}
	return b, b.bystander(db.Config, "slow")
}

func request(subscription group.Ref, partitions ...int64) group.ClaimRequest {
	return group.ClaimRequest{
		Subscription: subscription, Partitions: partitions, Lease: queue.NewID(), LeaseSeconds: 60, Batch: 10, MaxBytes: 16 << 20, AtLeastOne: true,
	}
}

// claiming is the verdicts of a claim that is under way.
func (b *bench) claiming(req group.ClaimRequest) <-chan []group.Verdict {
	done := make(chan []group.Verdict, 1)
	go func() {
		result, err := b.group.Claim(b.Context(), req)
		if err != nil {
			b.Error(err)
		}
		done <- verdicts(result.Claims)
	}()
	return done
}

func verdicts(claims []group.Claim) (all []group.Verdict) {
	for _, c := range claims {
		all = append(all, c.Verdict)
	}
	return all
}

func (b *bench) want(what string, got []group.Verdict, want ...group.Verdict) {
	b.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.Errorf("%s: %s", what, diff)
	}
}

func TestRule3OfTwoClaimsAtOnceOneGetsTheLease(t *testing.T) {
	t.Parallel()
	for _, first := range []struct{ name, event string }{{"FirstContact", "AFTER INSERT"}, {"LaterOn", "AFTER UPDATE"}} {
		t.Run(first.name, func(t *testing.T) {
			t.Parallel()
			b, slow := two(t)
			p, free := b.push("p", "1", "2"), b.push("free", "1")
			sub := b.subscribe("g", all)
			if first.name == "LaterOn" { // the cursor's row is there, and its lease has ended
				b.take(sub, 1, p)
				b.expireLeases()
			}
			release := testkit.Brake(t, b.pool, "slow", first.event, "queen.cursors")
			holder := slow.claiming(request(sub, p))
			testkit.AwaitBlocked(t, b.pool, "slow")
			if first.name == "LaterOn" {
				_, claims := b.claim(sub, 10, p, free)
				b.want("beside the first", verdicts(claims), group.Busy, group.Took)
				release()
			} else {
				rival := b.bystander(b.config(), "rival")
				waiting := rival.claiming(request(sub, p, free))
				testkit.AwaitBlocked(t, b.pool, "rival")
				release()
				b.want("the second", <-waiting, group.Busy, group.Took)
			}
			b.want("the first", <-holder, group.Took)
			_, claims := b.claim(sub, 10, p)
			b.want("afterwards", verdicts(claims), group.Leased)
		})
	}
}

// config is where the bench's database is.
func (b *bench) config() pg.Config {
	conn := b.pool.Config().ConnConfig
	return pg.Config{Host: conn.Host, Port: int(conn.Port), User: conn.User, Password: conn.Password, Database: conn.Database}
}

// A call that began before others took, acked and appended judges by what they left.
func TestRule3AClaimBegunEarlySeesWhatOthersDidMeanwhile(t *testing.T) {
	t.Parallel()
	b, slow := two(t)
	p := b.push("p", "1", "2")
	sub := b.subscribe("g", all)
	hold := testkit.StopCalls(t, b.pool, "slow", "claim")

	release := hold()
	late := slow.claiming(request(sub, p))
	testkit.AwaitBlocked(t, b.pool, "slow")
	lease, c := b.take(sub, 10, p)
	release()
	b.want("begun before the lease", <-late, group.Leased)

	release = hold()
	late = slow.claiming(request(sub, p))
	testkit.AwaitBlocked(t, b.pool, "slow")
	b.ack("g", c, &lease, "2")
	release()
	b.want("begun before the ack", <-late, group.Empty)

	release = hold()
	req := request(sub, p)
	late = slow.claiming(req)
	testkit.AwaitBlocked(t, b.pool, "slow")
	b.push("p", "3")
	release()
	b.want("begun before the push", <-late, group.Took)
	if r := b.ack("g", c, &req.Lease, "3"); !r.LeaseReleased || r.Committed != 2 {
		t.Errorf("%+v", r)
	}
}

// acking is the result of an ack that is under way.
func (b *bench) acking(c group.Claim, lease uuid.UUID, items ...string) <-chan group.AckResult {
	done := make(chan group.AckResult, 1)
	g := group.AckGroup{Partition: c.PartitionUUID, Lease: &lease}
	for _, text := range items {
		g.Items = append(g.Items, item(text))
	}
	go func() {
		results, err := b.group.Ack(b.Context(), queue.DefaultTenant, "g", group.Bounds{}, []group.AckGroup{g})
		if err != nil {
			b.Error(err)
			results = make([]group.AckResult, 1)
		}
		done <- results[0]
	}()
	return done
}

// The lease has ended and somebody takes it over while the old holder's ack or renewal waits for the same row.
func TestRule3AnAckThatWaitedForTheNextClaimIsStale(t *testing.T) {
	t.Parallel()
	b, slow := two(t)
	p := b.push("p", "1", "2")
	sub := b.subscribe("g", all)
	old, c := b.take(sub, 10, p)
	b.expireLeases()
	// Still live for whoever asks with the old clock, as for a call that read the clock before it waited.
	b.exec(`UPDATE queen.cursors SET lease_expires_at = clock_timestamp() + interval '1 ms'`)
	release := testkit.Brake(t, b.pool, "slow", "AFTER UPDATE", "queen.cursors")
	b.expireLeases()
	req := request(sub, p)
	taking := slow.claiming(req)
	testkit.AwaitBlocked(t, b.pool, "slow")
	acker, renewer := b.bystander(b.config(), "acker"), b.bystander(b.config(), "renewer")
	acked := acker.acking(c, old, "1", "2")
	testkit.AwaitBlocked(t, b.pool, "acker")
	renewed := make(chan int, 1)
	go func() {
		extension, err := renewer.group.Extend(t.Context(), queue.DefaultTenant, old, 60, group.Bounds{}, []group.LeaseKey{{Partition: p, Subscription: sub.ID}})
		if err != nil {
			t.Error(err)
		}
		renewed <- extension.Renewed
	}()
	testkit.AwaitBlocked(t, b.pool, "renewer")
	release()
	b.want("the claim", <-taking, group.Took)
	if r := <-acked; r.Items[0] != stale || r.Items[1] != stale || r.LeaseReleased {
		t.Errorf("%+v", r)
	}
	if n := <-renewed; n != 0 {
		t.Errorf("%d renewed of a lease that another has taken over", n)
	}
	if r := b.ack("g", c, &req.Lease, "2"); !r.LeaseReleased {
		t.Errorf("the holder's ack: %+v", r)
	}
}

// The other way round: the ack is under way when the next claim comes.
func TestRule3AClaimBesideAnAckTakesNothingThatIsBeingAcked(t *testing.T) {
	t.Parallel()
	b, slow := two(t)
	p := b.push("p", "1", "2", "3")
	sub := b.subscribe("g", all)
	lease, c := b.take(sub, 2, p)
	release := testkit.Brake(t, b.pool, "slow", "AFTER UPDATE", "queen.cursors")
	acked := slow.acking(c, lease, "2")
	testkit.AwaitBlocked(t, b.pool, "slow")
	_, claims := b.claim(sub, 10, p)
	b.want("beside the ack", verdicts(claims), group.Busy)
	release()
	if r := <-acked; !r.LeaseReleased {
		t.Errorf("%+v", r)
	}
	if _, next := b.take(sub, 10, p); next.First != 2 || next.Last != 2 {
		t.Errorf("%+v", next)
	}
}

// What is written and not committed is not there for a claim, and comes whole with the commit.
func TestRule3AClaimNeverPassesWhatIsCommitted(t *testing.T) {
	t.Parallel()
	b, slow := two(t)
	p := b.push("p", "1")
	slow.push("p") // connects
	sub := b.subscribe("g", all)
	release := testkit.Brake(t, b.pool, "slow", "AFTER INSERT", "queen.segments")
	pushed := make(chan struct{})
	go func() {
		defer close(pushed)
		slow.push("p", "2", "3")
	}()
	testkit.AwaitBlocked(t, b.pool, "slow")
	lease, c := b.take(sub, 10, p)
	if c.First != 0 || c.Last != 0 {
		t.Errorf("%+v", c)
	}
	b.ack("g", c, &lease, "1")
	_, claims := b.claim(sub, 10, p)
	b.want("before the commit", verdicts(claims), group.Empty)
	release()
	<-pushed
	if _, c = b.take(sub, 10, p); c.First != 1 || c.Last != 2 {
		t.Errorf("%+v", c)
	}
}

// A renewal that had to wait is judged by what it finds then: a lease that was ended meanwhile stays ended.
func TestRule3ARenewalThatWaitedForTheEndOfItsLeaseComesTooLate(t *testing.T) {
	t.Parallel()
	b, slow := two(t)
	p := b.push("p", "1")
	sub := b.subscribe("g", all)
	lease, _ := b.take(sub, 1, p)
	keys := []group.LeaseKey{{Partition: p, Subscription: sub.ID}}
	holder, err := b.pool.Begin(t.Context()) // of the cursor, for whom the end waits first
	if err == nil {
		_, err = holder.Exec(t.Context(), `SELECT FROM queen.cursors FOR UPDATE`)
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan int, 1)
	go func() {
		freed, err := slow.group.Expire(slow.Context(), queue.DefaultTenant, lease, group.Bounds{}, keys)
		if err != nil {
			slow.Error(err)
		}
		ended <- len(freed)
	}()
	testkit.AwaitBlocked(t, b.pool, "slow")
	late := b.bystander(b.config(), "late")
	renewed := make(chan int, 1)
	go func() {
		extension, err := late.group.Extend(late.Context(), queue.DefaultTenant, lease, 60, group.Bounds{}, keys)
		if err != nil {
			late.Error(err)
		}
		renewed <- extension.Renewed
	}()
	testkit.AwaitBlocked(t, b.pool, "late")
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := <-ended; n != 1 {
		t.Errorf("%d ended", n)
	}
	if n := <-renewed; n != 0 {
		t.Errorf("%d renewed", n)
	}
	b.take(sub, 1, p)
}
