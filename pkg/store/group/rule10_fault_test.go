package group_test

import (
	"testing"
	"time"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/testkit"
)

// Rule 10: where a group begins is fixed by partition numbers under the queue's lock, never by a clock.

func (b *bench) subscribing(start group.Start) <-chan group.Ref {
	done := make(chan group.Ref, 1)
	go func() {
		sub, err := b.group.Subscribe(b.Context(), queue.DefaultTenant, "q", "g", start)
		if err != nil {
			b.Error(err)
		}
		done <- sub.Ref
	}()
	return done
}

func (b *bench) ensuring(partition string) <-chan int64 {
	done := make(chan int64, 1)
	go func() {
		found, err := b.log.Ensure(b.Context(), []log.Key{{Tenant: queue.DefaultTenant, Queue: "q", Partition: partition}})
		if err != nil {
			b.Error(err)
			found = make([]log.Partition, 1)
		}
		done <- found[0].ID
	}()
	return done
}

// newest is up to which partition number the group found the queue.
func (b *bench) newest() (id int64) {
	b.Helper()
	if err := b.pool.QueryRow(b.Context(), `SELECT newest_partition_id FROM queen.subscriptions WHERE group_name = 'g'`).Scan(&id); err != nil {
		b.Fatal(err)
	}
	return id
}

func TestRule10ARegistrationWaitsForPartitionsThatAreBeingCreated(t *testing.T) {
	t.Parallel()
	b, slow := two(t)
	b.push("old", "1")
	release := testkit.Brake(t, b.pool, "slow", "AFTER INSERT", "queen.partitions")
	making := slow.ensuring("made")
	testkit.AwaitBlocked(t, b.pool, "slow")
	registering := b.bystander(b.config(), "registrar").subscribing(fresh)
	testkit.AwaitBlocked(t, b.pool, "registrar")
	release()
	made, sub := <-making, <-registering
	if b.newest() != made {
		t.Errorf("the group knows partitions up to %d, the one it waited for is %d", b.newest(), made)
	}
	b.push("made", "after")
	if _, c := b.take(sub, 10, made); c.First != 0 {
		t.Errorf("%+v", c)
	}
}

func TestRule10APartitionCreatedAfterARegistrationIsDeliveredFromItsStart(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]group.Start{"New": fresh, "FromLater": {From: time.Now().Add(time.Hour)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, slow := two(t)
			old := b.push("old", "1")
			release := testkit.Brake(t, b.pool, "slow", "AFTER INSERT", "queen.subscriptions")
			registering := slow.subscribing(start)
			testkit.AwaitBlocked(t, b.pool, "slow")
			making := b.bystander(b.config(), "maker").ensuring("made")
			testkit.AwaitBlocked(t, b.pool, "maker")
			release()
			sub, made := <-registering, <-making
			if newest := b.newest(); newest != old || made <= newest {
				t.Errorf("the group knows partitions up to %d, the one that waited for it is %d", newest, made)
			}
			b.push("made", "1", "2")
			if _, c := b.take(sub, 10, made); c.First != 0 || c.Last != 1 {
				t.Errorf("%+v", c)
			}
			_, claims := b.claim(sub, 10, old)
			b.want("what was there", verdicts(claims), group.Empty)
		})
	}
}

// An append that is under way while a group registers is committed later, so it is new.
func TestRule10AnAppendCommittedAfterTheRegistrationIsNew(t *testing.T) {
	t.Parallel()
	b, slow := two(t)
	p := b.push("p", "before")
	slow.push("p") // connects
	release := testkit.Brake(t, b.pool, "slow", "AFTER INSERT", "queen.segments")
	pushed := make(chan struct{})
	go func() {
		defer close(pushed)
		slow.push("p", "under way")
	}()
	testkit.AwaitBlocked(t, b.pool, "slow")
	sub := b.subscribe("g", fresh)
	release()
	<-pushed
	if _, c := b.take(sub, 10, p); c.First != 1 || c.Last != 1 {
		t.Errorf("%+v", c)
	}
}

// The registration happens where its lock is taken, not where its call began.
func TestRule10ARegistrationBegunEarlyCountsWhatCameBeforeItsLock(t *testing.T) {
	t.Parallel()
	b, slow := two(t)
	b.push("old", "1")
	release := testkit.StopCalls(t, b.pool, "slow", "subscribe")()
	registering := slow.subscribing(fresh)
	testkit.AwaitBlocked(t, b.pool, "slow")
	made := b.push("made", "1")
	release()
	sub := <-registering
	if b.newest() != made {
		t.Errorf("the group knows partitions up to %d, want %d", b.newest(), made)
	}
	_, claims := b.claim(sub, 10, made)
	b.want("what came before the registration", verdicts(claims), group.Empty)
}

func TestRule10OfTwoRegistrationsAtOnceTheFirstFixesTheStart(t *testing.T) {
	t.Parallel()
	b, slow := two(t)
	p := b.push("p", "1")
	release := testkit.Brake(t, b.pool, "slow", "AFTER INSERT", "queen.subscriptions")
	first := slow.subscribing(fresh)
	testkit.AwaitBlocked(t, b.pool, "slow")
	second := b.bystander(b.config(), "second").subscribing(all)
	testkit.AwaitBlocked(t, b.pool, "second")
	release()
	sub, same := <-first, <-second
	if sub != same {
		t.Errorf("%v and %v", sub, same)
	}
	_, claims := b.claim(sub, 10, p)
	b.want("what was there", verdicts(claims), group.Empty)
}

// The clock steps back by an hour around a registration. On a machine with libfaketime it is the server's own.
func TestRule10AGroupRegisteredWhileTheClockStepsBackMissesNothing(t *testing.T) {
	t.Parallel()
	d := testkit.NewClockDatabase(t)
	b := &bench{T: t, pool: d.Pool, group: group.New(d.Pool), log: log.New(d.Pool)}
	slow := b.bystander(d.Config, "slow")
	old := b.push("old", "before")
	release := testkit.Brake(t, b.pool, "slow", "AFTER INSERT", "queen.subscriptions")
	registering := slow.subscribing(fresh)
	testkit.AwaitBlocked(t, b.pool, "slow")
	if d.Real() { // stored times cannot be moved under the lock that the registration holds
		d.Step(t, -time.Hour)
	}
	release()
	sub := <-registering
	if !d.Real() {
		d.Step(t, -time.Hour)
	}
	b.push("old", "after")
	made := b.push("made", "1", "2")
	var early bool
	if err := b.pool.QueryRow(t.Context(), `SELECT (SELECT created_at FROM queen.partitions WHERE id = $1) < registered_at - interval '50 min'
		FROM queen.subscriptions`, made).Scan(&early); err != nil || !early {
		t.Fatalf("the partition looks older than the registration: %v, %v", early, err)
	}
	lease, claims := b.claim(sub, 10, old, made)
	if len(claims) != 2 || claims[0].First != 1 || claims[0].Last != 1 || claims[1].First != 0 || claims[1].Last != 1 {
		t.Fatalf("%+v", claims)
	}
	if r := b.ack("g", claims[1], &lease, "2"); !r.LeaseReleased {
		t.Errorf("%+v", r)
	}
}

// A clock that leaps forward ends no lease for a caller that knows better.
func TestRule3ALeapOfTheClockEndsNoLeaseUnderACap(t *testing.T) {
	t.Parallel()
	d := testkit.NewClockDatabase(t)
	b := &bench{T: t, pool: d.Pool, group: group.New(d.Pool), log: log.New(d.Pool)}
	p := b.push("p", "1")
	sub := b.subscribe("g", all)
	lease, c := b.take(sub, 1, p)
	req := request(sub, p)
	req.Clock.Cap = time.Now().Add(500 * time.Millisecond)
	if !d.Real() { // the stored times move instead of the clock, so the caller's time moves with them
		req.Clock.Cap = req.Clock.Cap.Add(-time.Hour)
	}
	d.Step(t, time.Hour)
	b.want("with a cap", <-b.claiming(req), group.Leased)
	results, err := b.group.Ack(t.Context(), queue.DefaultTenant, "g", req.Clock,
		[]group.AckGroup{{Partition: c.PartitionUUID, Lease: &lease, Items: []group.AckItem{item("1")}}})
	if err != nil || !results[0].LeaseReleased {
		t.Errorf("%+v, %v", results, err)
	}
}

// A clock that has fallen back and returns has not shortened what was leased meanwhile.
func TestRule3ALeaseOfAFallenClockLastsWhenTheClockReturns(t *testing.T) {
	t.Parallel()
	d := testkit.NewClockDatabase(t)
	b := &bench{T: t, pool: d.Pool, group: group.New(d.Pool), log: log.New(d.Pool)}
	p := b.push("p", "1")
	sub := b.subscribe("g", all)
	d.Step(t, -time.Hour)
	req := request(sub, p)
	bounds := func(now time.Time) group.Bounds {
		return group.Bounds{Floor: now, Cap: now.Add(500 * time.Millisecond)}
	}
	req.Clock = bounds(time.Now())
	if !d.Real() { // the stored times have moved instead of the clock, and the caller's time with them
		req.Clock = bounds(time.Now().Add(time.Hour))
	}
	b.want("on the fallen clock", <-b.claiming(req), group.Took)
	d.Step(t, time.Hour)
	req.Clock = bounds(time.Now())
	b.want("on the right one", <-b.claiming(req), group.Leased)
}
