package admin_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/admin"
	"queen.internal/pkg/store/log"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.CheckLeaks) }

// bench is one test's database with an admin store on it.
type bench struct {
	*testing.T
	pool  *pg.Pool
	store *admin.Store
}

func setup(t *testing.T) *bench {
	pool := pgtest.DB(t)
	return &bench{T: t, pool: pool, store: admin.New(pool)}
}

func (b *bench) configure(name string, change queue.Options) admin.Queue {
	b.Helper()
	q, err := b.store.Configure(b.Context(), queue.DefaultTenant, name, change)
	if err != nil {
		b.Fatal(err)
	}
	return q
}

// push creates a queue as a push does.
func (b *bench) push(name string) {
	b.Helper()
	key := log.Key{Tenant: queue.DefaultTenant, Queue: name, Partition: queue.DefaultPartition}
	if _, err := log.New(b.pool).Ensure(b.Context(), []log.Key{key}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) exec(sql string, args ...any) {
	b.Helper()
	if _, err := b.pool.Exec(b.Context(), sql, args...); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) same(want, got queue.Options) {
	b.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.Errorf("options differ (-want +got):\n%s", diff)
	}
}

// distinct is a value for each option that is neither its default nor that of another one of its type, where the type
// has as many.
func distinct() queue.Options {
	return queue.Options{
		Namespace: new("n"), Task: new("t"), Priority: new(int32(101)), LeaseSeconds: new(int32(102)), RetryLimit: new(int32(103)),
		RetryDelayMillis: new(int32(104)), MaxSize: new(int32(105)), TTLSeconds: new(int32(106)),
		DeadLetterQueue: new(false), DeadLetterAfterRetries: new(false), DelayedProcessingSeconds: new(int32(107)),
		WindowBufferSeconds: new(int32(108)), RetentionSeconds: new(int32(109)), CompletedRetentionSeconds: new(int32(110)),
		RetentionEnabled: new(true), EncryptionEnabled: new(true), MaxWaitSeconds: new(int32(111)), MinPopWaitMillis: new(int32(112)),
		DedupWindowSeconds: new(int32(113)), RetentionSinkHold: new("s"), RetentionSinkHoldMaxSeconds: new(int32(114)),
		DeliveryLimit: new(int32(115)), RedeliveryDelaySeconds: new(int32(116)),
		Spool: new(false),
	}
}

func TestConfigure_CreatesAQueueWithTheDefaults(t *testing.T) {
	t.Parallel()
	b := setup(t)
	q := b.configure("orders.created.eu", queue.Options{})
	b.same(queue.DefaultOptions(), q.Options)
	if q.ID == uuid.Nil {
		t.Error("no id")
	}
	b.same(queue.DefaultOptions(), b.configure("", queue.Options{}).Options) // the empty name is a name
}

func TestConfigure_AQueueThatAPushMadeDiffersInLeaseAndLabels(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("orders.created.eu")
	want := queue.DefaultOptions()
	want.LeaseSeconds, want.Namespace, want.Task = new(int32(60)), new("orders"), new("created")
	b.same(want, b.configure("orders.created.eu", queue.Options{}).Options)
}

func TestConfigure_StoresEachOptionInItsOwnColumn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := b.configure("q", distinct())
	b.same(distinct(), first.Options)
	// By the names that procedures and other services read.
	rows, err := b.pool.Query(t.Context(), `SELECT priority, lease_seconds, retry_limit, retry_delay_ms, max_size, ttl_seconds, delayed_processing_seconds,
		window_buffer_seconds, retention_seconds, completed_retention_seconds, max_wait_seconds, min_pop_wait_ms, dedup_window_seconds,
		retention_sink_hold_max_seconds, delivery_limit, redelivery_delay_seconds, namespace, task, retention_sink_hold, dead_letter_queue, dead_letter_after_retries,
		retention_enabled, encryption_enabled FROM queen.queues`)
	if err != nil {
		t.Fatal(err)
	}
	row, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
	if err != nil {
		t.Fatal(err)
	}
	want := []any{
		int32(101), int32(102), int32(103), int32(104), int32(105), int32(106), int32(107), int32(108), int32(109), int32(110), int32(111),
		int32(112), int32(113), int32(114), int32(115), int32(116), "n", "t", "s", false, false, true, true,
	}
	if diff := cmp.Diff(want, row); diff != "" {
		t.Error(diff)
	}
}

func TestConfigure_ChangesWhatItSpeaksOfAndNothingElse(t *testing.T) {
	t.Parallel()
	b := setup(t)
	before := b.configure("q", distinct())
	after := b.configure("q", queue.Options{TTLSeconds: new(int32(7)), DeadLetterQueue: new(true), Task: new("")})
	want := distinct()
	want.TTLSeconds, want.DeadLetterQueue, want.Task = new(int32(7)), new(true), new("")
	b.same(want, after.Options)
	if before.ID != after.ID {
		t.Errorf("another queue: %v, then %v", before.ID, after.ID)
	}
	b.same(queue.DefaultOptions(), b.configure("q", queue.DefaultOptions()).Options)
	b.same(queue.DefaultOptions(), b.configure("other", queue.Options{}).Options)
}

func TestConfigure_TenantsDoNotShareAQueue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	own := b.configure("q", distinct())
	foreign, err := b.store.Configure(t.Context(), uuid.MustParse("11111111-2222-3333-4444-555555555555"), "q", queue.Options{})
	if err != nil || foreign.ID == own.ID {
		t.Fatal(foreign, err)
	}
	b.same(queue.DefaultOptions(), foreign.Options)
	b.same(distinct(), b.configure("q", queue.Options{}).Options)
}

func TestConfigure_ADeletedQueueLendsNothingToItsSuccessor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old := b.configure("q", distinct())
	b.exec(`UPDATE queen.queues SET deleted_at = clock_timestamp()`)
	fresh := b.configure("q", queue.Options{})
	b.same(queue.DefaultOptions(), fresh.Options)
	if old.ID == fresh.ID {
		t.Error("the deleted queue came back")
	}
}

func TestConfigure_CallsAtOnceMergeIntoOneQueue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	changes := []queue.Options{
		{Priority: new(int32(1))},
		{LeaseSeconds: new(int32(2))},
		{RetryLimit: new(int32(3))},
		{MaxSize: new(int32(4))},
		{TTLSeconds: new(int32(5))},
		{Namespace: new("n")},
	}
	ids := make([]uuid.UUID, len(changes))
	var running sync.WaitGroup
	for i, change := range changes {
		running.Go(func() {
			q, err := b.store.Configure(t.Context(), queue.DefaultTenant, "q", change)
			if err != nil {
				t.Error(err)
			}
			ids[i] = q.ID
		})
	}
	running.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("several queues: %v", ids)
		}
	}
	want := queue.DefaultOptions()
	want.Priority, want.LeaseSeconds, want.RetryLimit = new(int32(1)), new(int32(2)), new(int32(3))
	want.MaxSize, want.TTLSeconds, want.Namespace = new(int32(4)), new(int32(5)), new("n")
	b.same(want, b.configure("q", queue.Options{}).Options)
}

func TestConfigure_WaitsForWhoeverCreatesPartitionsAndGivesUpInTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.configure("q", queue.Options{})
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tx.Rollback(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	if _, err := tx.Exec(t.Context(), `SELECT FROM queen.queues FOR SHARE`); err != nil {
		t.Fatal(err)
	}
	_, err = b.store.Configure(t.Context(), queue.DefaultTenant, "q", queue.Options{TTLSeconds: new(int32(1))})
	if queue.KindOf(err) != queue.KindUnavailable || !pg.Transient(err) {
		t.Errorf("a locked queue is %v", err)
	}
}

func TestConfigure_LabelsOfFullLengthFitBesideDerivedOnes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	long := incompressible(queue.MaxNameBytes)
	b.push(long) // no dot: all of it is the namespace
	label := incompressible(queue.MaxLabelBytes)
	change := queue.Options{Task: &label}
	if err := change.Settle(); err != nil {
		t.Fatal(err)
	}
	if got := b.configure(long, change).Options; *got.Task != label || *got.Namespace != long {
		t.Errorf("%d and %d bytes came back", len(*got.Namespace), len(*got.Task))
	}
	b.push("x." + incompressible(queue.MaxNameBytes-2))
	b.configure("x."+incompressible(queue.MaxNameBytes-2), queue.Options{Namespace: &label})
}

// incompressible is text that an index cannot make smaller.
func incompressible(size int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	text, state := make([]byte, size), uint64(size)
	for i := range text {
		state = state*6364136223846793005 + 1442695040888963407
		text[i] = letters[state>>58]
	}
	return string(text)
}

func TestConfigure_TheTableRefusesWhatNobodySettled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, change := range []queue.Options{{DeliveryLimit: new(int32(1))}, {DeliveryLimit: new(int32(-3))}, {MinPopWaitMillis: new(int32(60001))}, {RedeliveryDelaySeconds: new(int32(-1))}, {RedeliveryDelaySeconds: new(int32(86401))}} {
		if _, err := b.store.Configure(t.Context(), queue.DefaultTenant, "q", change); queue.KindOf(err) != queue.KindInternal || err == nil {
			t.Errorf("%+v is %v", change, err)
		}
	}
	var queues int
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM queen.queues`).Scan(&queues); err != nil || queues != 0 {
		t.Errorf("%d queues are left of refused calls (%v)", queues, err)
	}
}

func TestConfigure_ADatabaseThatIsAwayIsUnavailable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	_, err := b.store.Configure(ctx, queue.DefaultTenant, "q", queue.Options{})
	want := &queue.Error{Kind: queue.KindUnavailable}
	if diff := cmp.Diff(want, err, cmpopts.EquateErrors()); diff != "" {
		t.Error(diff)
	}
}
