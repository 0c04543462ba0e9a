package retention

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"queen.internal/pkg/metrics"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/store/retention"
	"queen.internal/pkg/store/task"
	"queen.internal/services/maintainer/internal/claim"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.CheckLeaks) }

// more than a page of partitions, so that a queue takes several steps of each stage.
const partitions = partitionsAtOnce*2 + 3

// bench is a database with some queues, each of whose partitions holds a few segments.
type bench struct {
	*testing.T
	db     pgtest.Database
	worker claim.Worker
	cycle  Cycle
}

func setup(t *testing.T, queues ...string) *bench {
	db := pgtest.New(t)
	b := &bench{T: t, db: db}
	b.cycle = Cycle{Store: retention.New(db.Pool), Batch: 50, Parallelism: 3}
	b.worker = claim.Worker{Store: task.New(db.Pool), Holder: "m", Logger: slog.New(slog.DiscardHandler), Tasks: []claim.Task{
		{Name: "retention", Terms: task.Terms{Period: time.Millisecond, Lease: time.Hour}, Work: b.cycle.Work},
	}}
	l := log.New(db.Pool)
	var keys []log.Key
	for _, name := range queues {
		for i := range partitions {
			keys = append(keys, log.Key{Tenant: queue.DefaultTenant, Queue: name, Partition: fmt.Sprint(i)})
		}
	}
	ids, err := l.Ensure(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		var runs []log.Run
		for i, id := range ids {
			m := segment.Message{ID: queue.NewID(), Payload: []byte("1"), TransactionID: fmt.Sprint(round)}
			runs = append(runs, log.Run{
				Partition: id, Tag: int64(1 + round*len(ids) + i), Segment: segment.Encode([]segment.Message{m}),
				Hashes: []uuid.UUID{queue.TransactionHash(m.TransactionID)},
			})
		}
		if _, err := l.Append(t.Context(), runs, log.AppendOptions{Wait: true}); err != nil {
			t.Fatal(err)
		}
	}
	b.exec(`UPDATE queen.segments SET created_at = created_at - interval '2 h'`)
	b.exec(`UPDATE queen.dedup SET created_at = created_at - interval '2 h'`)
	b.exec(`UPDATE queen.partitions SET last_created_at = last_created_at - interval '2 h'`)
	b.exec(`UPDATE queen.retained SET segments_since = segments_since - interval '2 h', hashes_since = hashes_since - interval '2 h'`)
	return b
}

func (b *bench) exec(sql string, args ...any) {
	b.Helper()
	if _, err := b.db.Pool.Exec(b.Context(), sql, args...); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) value(sql string, args ...any) (n int64) {
	b.Helper()
	if err := b.db.Pool.QueryRow(b.Context(), sql, args...).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}

// once works one period and gives what it told.
func (b *bench) once() string {
	b.Helper()
	told := ""
	if err := b.worker.Once(b.Context(), func(_ string, o claim.Outcome, _ error) {
		for _, a := range o.Told {
			told += " " + a.String()
		}
	}); err != nil {
		b.Fatal(err)
	}
	return told
}

func TestACycleDoesEverythingThatIsDue(t *testing.T) {
	t.Parallel()
	b := setup(t, "a", "b", "c", "kept")
	b.exec(`UPDATE queen.queues SET retention_enabled = true, retention_seconds = 60 WHERE name <> 'kept'`)
	told := b.once()
	for _, want := range []string{"queues=4", fmt.Sprint("messages_aged=", 3*2*partitions), fmt.Sprint("messages_unread=", 3*2*partitions), fmt.Sprint("segments_deleted=", 3*2*partitions), fmt.Sprint("hashes_deleted=", 4*2*partitions)} {
		if !strings.Contains(told+" ", " "+want+" ") {
			t.Errorf("told %q, want %s", told, want)
		}
	}
	if n := b.value(`SELECT count(*) FROM queen.segments`); n != 2*partitions {
		t.Errorf("%d segments are left", n)
	}
	if n := b.value(`SELECT count(*) FROM queen.dedup`); n != 0 {
		t.Errorf("%d dedup rows are left", n)
	}
	if told := b.once(); told != "" {
		t.Errorf("a second period tells %q", told)
	}
	if n := b.value(`SELECT sum(aged) FROM queen.retention_history`); n != 3*2*partitions {
		t.Errorf("the history tells of %d messages", n)
	}
}

func TestWhatAHolderThatDiedHasLeftIsFound(t *testing.T) {
	t.Parallel()
	b := setup(t, "a")
	b.exec(`UPDATE queen.queues SET retention_enabled = true, retention_seconds = 60`)
	hold, taken, _, err := b.worker.Store.Claim(t.Context(), "retention", "dies", task.Terms{Period: time.Millisecond, Lease: time.Millisecond})
	if err != nil || !taken {
		t.Fatal(taken, err)
	}
	if _, err := b.cycle.Store.Cut(t.Context(), hold, b.value(`SELECT id FROM queen.queues`), retention.Position{}, partitionsAtOnce); err != nil {
		t.Fatal(err)
	}
	b.exec(`UPDATE queen.tasks SET lease_expires_at = NULL`)
	if told := b.once(); !strings.Contains(told, fmt.Sprint("messages_aged=", 2*(partitions-partitionsAtOnce))) || !strings.Contains(told, fmt.Sprint("segments_deleted=", 2*partitions)) {
		t.Errorf("told %q", told)
	}
	if n := b.value(`SELECT count(*) FROM queen.segments`) + b.value(`SELECT count(*) FROM queen.retained WHERE trash`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

func TestAQueueThatFailsKeepsNoOtherFromBeingWorked(t *testing.T) {
	t.Parallel()
	b := setup(t, "a", "b", "c")
	b.exec(`UPDATE queen.queues SET retention_enabled = true, retention_seconds = 60`)
	b.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'broken'; END $$`)
	b.exec(fmt.Sprintf(`CREATE TRIGGER refuse BEFORE UPDATE ON queen.partitions FOR EACH ROW WHEN (OLD.queue_id = %d) EXECUTE FUNCTION refuse()`,
		b.value(`SELECT id FROM queen.queues WHERE name = 'b'`)))
	registry := metrics.New("maintainer", "test")
	b.cycle.Meter = NewMeter(registry.Registerer())
	b.worker.Tasks[0].Work = b.cycle.Work
	failed := b.worker.Once(t.Context(), func(string, claim.Outcome, error) {})
	if failed == nil || !strings.Contains(failed.Error(), "broken") {
		t.Errorf("ends with %v", failed)
	}
	if n := b.value(`SELECT count(*) FROM queen.segments s JOIN queen.partitions p ON p.id = s.partition_id JOIN queen.queues q ON q.id = p.queue_id WHERE q.name <> 'b'`); n != 0 {
		t.Errorf("%d segments of the others are left", n)
	}
	if n := counted(t, registry.Gatherer(), "queen_retention_messages_total", "age"); n != 2*2*partitions {
		t.Errorf("%v messages were counted", n)
	}
}

// counted reads one counter.
func counted(t *testing.T, gatherer prometheus.Gatherer, name, label string) float64 {
	t.Helper()
	families, err := gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}
