package deadletter_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/store/deadletter"
	"queen.internal/pkg/store/log"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.CheckLeaks) }

// bench is one test's database with a dead letter store on it.
type bench struct {
	*testing.T
	pool  *pg.Pool
	store *deadletter.Store
}

func setup(t *testing.T) *bench {
	pool := pgtest.DB(t)
	return &bench{T: t, pool: pool, store: deadletter.New(pool)}
}

func (b *bench) exec(sql string, args ...any) {
	b.Helper()
	if _, err := b.pool.Exec(b.Context(), sql, args...); err != nil {
		b.Fatal(err)
	}
}

var (
	tenant = queue.DefaultTenant
	other  = uuid.MustParse("00000000-0000-0000-0000-000000000002")
	epoch  = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
)

// at is the moment when the n-th letter of a test failed.
func at(n int) time.Time { return epoch.Add(time.Duration(n) * time.Second) }

// partition makes a partition and returns the ids it has.
func (b *bench) partition(owner uuid.UUID, queueName, name string) log.Partition {
	b.Helper()
	found, err := log.New(b.pool).Ensure(b.Context(), []log.Key{{Tenant: owner, Queue: queueName, Partition: name}})
	if err != nil {
		b.Fatal(err)
	}
	return found[0]
}

// file files a dead letter that failed at the n-th moment; its transaction id is that number.
func (b *bench) file(p log.Partition, group string, n int) {
	b.Helper()
	b.exec(`INSERT INTO queen.dlq (id, queue_id, partition_id, message_offset, failed_at, created_at, retry_count, message_id, group_name,
			transaction_id, error, payload)
		SELECT gen_random_uuid(), queue_id, id, $2::bigint, $3, $3, 2, gen_random_uuid(), $4, $2::bigint::text, 'why', convert_to('"' || $2::bigint || '"', 'UTF8')
		FROM queen.partitions WHERE id = $1`, p.ID, n, at(n), group)
}

// list is the transaction ids of a page, in order; a plus at the end says that there are more.
func (b *bench) list(owner uuid.UUID, f deadletter.Filter, limit, offset int) string {
	b.Helper()
	letters, more, err := b.store.List(b.Context(), owner, f, deadletter.Page{Limit: limit, Offset: offset, MaxBytes: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	var ids []string
	for _, l := range letters {
		ids = append(ids, l.TransactionID)
	}
	if more {
		ids = append(ids, "+")
	}
	return strings.Join(ids, " ")
}

func TestList_NarrowsAndOrders(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, q, r := b.partition(tenant, "a", "one"), b.partition(tenant, "a", "two"), b.partition(tenant, "b", "one")
	foreign, gone := b.partition(other, "a", "one"), b.partition(tenant, "gone", "one")
	for n, place := range []struct {
		partition log.Partition
		group     string
	}{{p, "g"}, {r, "g"}, {q, "h"}, {foreign, "g"}, {p, "h"}, {r, "h"}, {gone, "g"}, {q, "g"}} {
		b.file(place.partition, place.group, n)
	}
	b.exec(`UPDATE queen.queues SET deleted_at = clock_timestamp() WHERE name = 'gone'`)

	for _, test := range []struct {
		name          string
		owner         uuid.UUID
		filter        deadletter.Filter
		limit, offset int
		want          string
	}{
		{"all of the tenant", tenant, deadletter.Filter{}, 10, 0, "7 5 4 2 1 0"},
		{"all of another", other, deadletter.Filter{}, 10, 0, "3"},
		{"a tenant without any", uuid.Max, deadletter.Filter{}, 10, 0, ""},
		{"a page", tenant, deadletter.Filter{}, 2, 0, "7 5 +"},
		{"the page behind it", tenant, deadletter.Filter{}, 2, 2, "4 2 +"},
		{"the last page, full", tenant, deadletter.Filter{}, 2, 4, "1 0"},
		{"behind the end", tenant, deadletter.Filter{}, 2, 6, ""},
		{"an empty page", tenant, deadletter.Filter{}, 0, 0, "+"},
		{"a queue", tenant, deadletter.Filter{Queue: "a"}, 10, 0, "7 4 2 0"},
		{"a queue that was deleted", tenant, deadletter.Filter{Queue: "gone"}, 10, 0, ""},
		{"a queue that never was", tenant, deadletter.Filter{Queue: "c"}, 10, 0, ""},
		{"a queue of the same name", other, deadletter.Filter{Queue: "a"}, 10, 0, "3"},
		{"another tenant's queue", other, deadletter.Filter{Queue: "b"}, 10, 0, ""},
		{"a group", tenant, deadletter.Filter{Group: "g"}, 10, 0, "7 1 0"},
		{"a page of a group", tenant, deadletter.Filter{Group: "g"}, 1, 1, "1 +"},
		{"a group of a queue", tenant, deadletter.Filter{Queue: "a", Group: "h"}, 10, 0, "4 2"},
		{"a partition in every queue", tenant, deadletter.Filter{Partition: "one"}, 10, 0, "5 4 1 0"},
		{"a partition", tenant, deadletter.Filter{Queue: "a", Partition: "one"}, 10, 0, "4 0"},
		{"a partition and a group", tenant, deadletter.Filter{Queue: "a", Partition: "one", Group: "h"}, 10, 0, "4"},
		{"from a moment on", tenant, deadletter.Filter{From: at(4)}, 10, 0, "7 5 4"},
		{"before a moment", tenant, deadletter.Filter{Before: at(4)}, 10, 0, "2 1 0"},
		{"between two", tenant, deadletter.Filter{Queue: "a", From: at(2), Before: at(7)}, 10, 0, "4 2"},
		{"between two, of a group", tenant, deadletter.Filter{Group: "h", From: at(3), Before: at(5)}, 10, 0, "4"},
		{"between two, of a partition", tenant, deadletter.Filter{Partition: "two", From: at(3)}, 10, 0, "7"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := b.list(test.owner, test.filter, test.limit, test.offset); got != test.want {
				t.Errorf("lists %q, want %q", got, test.want)
			}
		})
	}
}

// Pages over queues whose letters lie mixed must give each letter once, whatever the size of a page.
func TestList_PagesOverManyQueues(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var partitions []log.Partition
	for i := range 7 {
		partitions = append(partitions, b.partition(tenant, fmt.Sprint("q", i), "p"))
	}
	const letters = 60
	for n := range letters {
		b.file(partitions[n*n%len(partitions)], "g", n/2) // two of each moment
	}
	for _, filter := range []deadletter.Filter{{}, {Group: "g"}, {Partition: "p"}} {
		want := b.list(tenant, filter, letters, 0)
		for _, limit := range []int{1, 2, 3, 7, 25} {
			var pages []string
			for offset := 0; offset < letters; offset += limit {
				if page := strings.TrimSuffix(b.list(tenant, filter, limit, offset), " +"); page != "" {
					pages = append(pages, page)
				}
			}
			if got := strings.Join(pages, " "); got != want || strings.Count(got, " ") != letters-1 {
				t.Errorf("%+v in pages of %d: %s\nwant %s", filter, limit, got, want)
			}
		}
	}
}

func TestList_TellsEverythingOfALetter(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.partition(tenant, "a", "one")
	b.file(p, "g", 3)
	letters, _, err := b.store.List(t.Context(), tenant, deadletter.Filter{}, deadletter.Page{Limit: 1, MaxBytes: 1})
	if err != nil || len(letters) != 1 {
		t.Fatal(letters, err)
	}
	want := deadletter.Letter{
		ID: letters[0].ID, Queue: "a", PartitionID: p.UID, Partition: "one", Group: "g", TransactionID: "3", Error: "why", RetryCount: 2,
		FailedAt: at(3), Payload: []byte(`"3"`),
	}
	if diff := cmp.Diff(want, letters[0]); diff != "" || letters[0].ID == uuid.Nil {
		t.Error(diff)
	}
}

func TestList_BoundsTheBytesOfAPage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.partition(tenant, "a", "one")
	for n := range 4 {
		b.file(p, "g", n) // payloads of three bytes
	}
	letters, _, err := b.store.List(t.Context(), tenant, deadletter.Filter{}, deadletter.Page{Limit: 10, MaxBytes: 8})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range letters {
		got = append(got, l.TransactionID+string(l.Payload))
	}
	if diff := cmp.Diff([]string{`3"3"`, `2"2"`, "1", "0"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestPurge_TakesWhatIsThere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, q := b.partition(tenant, "a", "one"), b.partition(tenant, "b", "one")
	foreign := b.partition(other, "a", "one")
	for n := range 3 {
		b.file(p, "g", n)
		b.file(p, "h", n+3)
		b.file(q, "g", n+6)
		b.file(foreign, "g", n)
	}
	for _, test := range []struct {
		name, queue, group string
		want               int
		left               string
	}{
		{"a queue that is not there", "c", "", 0, "8 7 6 5 4 3 2 1 0"},
		{"a group that is not there", "a", "x", 0, "8 7 6 5 4 3 2 1 0"},
		{"one group", "a", "h", 3, "8 7 6 2 1 0"},
		{"all groups", "a", "", 3, "8 7 6"},
		{"once more", "a", "", 0, "8 7 6"},
	} {
		removed, err := b.store.Purge(t.Context(), tenant, test.queue, test.group)
		if err != nil || removed != test.want {
			t.Errorf("%s: removed %d, %v, want %d", test.name, removed, err, test.want)
		}
		if left := b.list(tenant, deadletter.Filter{}, 10, 0); left != test.left {
			t.Errorf("%s: left %q, want %q", test.name, left, test.left)
		}
	}
	if left := b.list(other, deadletter.Filter{}, 10, 0); left != "2 1 0" {
		t.Errorf("another tenant's queue of the same name has %q left", left)
	}
}

func TestPurge_GoesOnToTheEndAndNotBeyondItsBeginning(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.partition(tenant, "a", "one")
	const letters = 4500 // more than two steps
	b.exec(`INSERT INTO queen.dlq SELECT gen_random_uuid(), queue_id, id, g, $2::timestamptz + g * interval '1 ms', $2::timestamptz, 0, gen_random_uuid(), 'g', g::text, '', '1'
		FROM queen.partitions, generate_series(1, $3) g WHERE id = $1`, p.ID, epoch, letters)
	b.exec(`INSERT INTO queen.dlq SELECT gen_random_uuid(), queue_id, id, 1, clock_timestamp() + interval '1 h', clock_timestamp(), 0, gen_random_uuid(), 'g', 'later', '', '1'
		FROM queen.partitions WHERE id = $1`, p.ID)
	removed, err := b.store.Purge(t.Context(), tenant, "a", "")
	if err != nil || removed != letters {
		t.Errorf("removed %d, %v, want %d", removed, err, letters)
	}
	if left := b.list(tenant, deadletter.Filter{}, 10, 0); left != "later" {
		t.Errorf("left %q, want what was filed after the purge began", left)
	}
}

func TestRemove_TakesOneAddress(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, q, foreign := b.partition(tenant, "a", "one"), b.partition(tenant, "a", "two"), b.partition(other, "a", "one")
	gone := b.partition(tenant, "gone", "one")
	for _, group := range []string{"g", "h"} {
		b.file(p, group, 1)
		b.file(p, group, 2)
		b.file(q, group, 1)
		b.file(foreign, group, 1)
		b.file(gone, group, 1)
	}
	b.exec(`UPDATE queen.queues SET deleted_at = clock_timestamp() WHERE name = 'gone'`)
	for _, test := range []struct {
		name      string
		owner     uuid.UUID
		partition uuid.UUID
		id        string
		want      int
	}{
		{"another tenant's partition", tenant, foreign.UID, "1", 0},
		{"a partition that is not there", tenant, uuid.Max, "1", 0},
		{"a partition of a deleted queue", tenant, gone.UID, "1", 0},
		{"a message that is not there", tenant, p.UID, "3", 0},
		{"both groups' letters", tenant, p.UID, "1", 2},
		{"once more", tenant, p.UID, "1", 0},
	} {
		removed, err := b.store.Remove(t.Context(), test.owner, test.partition, test.id)
		if err != nil || removed != test.want {
			t.Errorf("%s: removed %d, %v, want %d", test.name, removed, err, test.want)
		}
	}
	if left := b.list(tenant, deadletter.Filter{Partition: "one"}, 10, 0) + ", " + b.list(tenant, deadletter.Filter{Partition: "two"}, 10, 0); left != "2 2, 1 1" {
		t.Errorf("left %q", left)
	}
}
