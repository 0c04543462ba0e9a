package retention_test

import (
	"fmt"
	"slices"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/admin"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/store/retention"
)

// history is one queue with its groups, some slow, some dead, some that have not begun. Hours pass by moving all times of the
// queue back, so nothing depends on how fast the machine is: rules count in hours and a half.
type history struct {
	*rapid.T
	b     *bench
	queue string
	id    int64
	parts []log.Partition
	log   *log.Store
	group *group.Store
	subs  map[string]group.Ref                  // of the groups that have registered
	rules struct{ aged, completed, waited int } // hours, 0 for none
	tag   int64
	gone  retention.Removed // what the steps have told
	want  retention.Removed // and what the oracle has
}

var modelGroups = []string{"slow", "dead", "late", "__QUEUE_MODE__"}

func (h *history) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// append writes a segment of some messages.
func (h *history) append(to log.Partition) {
	h.tag++
	run := log.Run{Partition: to, Tag: h.tag}
	var messages []segment.Message
	for range rapid.IntRange(1, 3).Draw(h.T, "messages") {
		m := segment.Message{ID: queue.NewID(), Payload: []byte("1")}
		m.TransactionID = m.ID.String()
		messages, run.Hashes = append(messages, m), append(run.Hashes, queue.TransactionHash(m.TransactionID))
	}
	run.Segment = segment.Encode(messages)
	placed, err := h.log.Append(h.b.Context(), []log.Run{run}, log.AppendOptions{Wait: true})
	h.must(err)
	if len(placed) != 1 || placed[0].Verdict != log.Appended {
		h.Fatal(placed)
	}
}

// pass lets hours go by.
func (h *history) pass(hours int) {
	h.b.exec(`WITH moved AS (SELECT p.id FROM queen.partitions p WHERE p.queue_id = $1),
		a AS (UPDATE queen.segments s SET created_at = created_at - $2 * interval '1 h' FROM moved WHERE s.partition_id = moved.id),
		b AS (UPDATE queen.dedup s SET created_at = created_at - $2 * interval '1 h' FROM moved WHERE s.partition_id = moved.id),
		c AS (UPDATE queen.partitions s SET last_created_at = last_created_at - $2 * interval '1 h' FROM moved WHERE s.id = moved.id),
		d AS (UPDATE queen.cursors s SET lease_expires_at = lease_expires_at - $2 * interval '1 h' FROM moved WHERE s.partition_id = moved.id)
		UPDATE queen.retained s SET segments_since = segments_since - $2 * interval '1 h', hashes_since = hashes_since - $2 * interval '1 h'
		FROM moved WHERE s.partition_id = moved.id`, h.id, hours)
}

// register is a group's first contact; one page of its cursors may be all that it gets.
func (h *history) register(name, mode string) {
	start := group.Start{Mode: mode}
	sub, err := h.group.Subscribe(h.b.Context(), queue.DefaultTenant, h.queue, name, start)
	if seeding := new(group.Seeding); err != nil {
		if !asSeeding(err, &seeding) {
			h.Fatal(err)
		}
		return
	}
	h.subs[name] = sub.Ref
}

// pin is a pop of one partition by a group that has never popped the queue.
func (h *history) pin() {
	i := rapid.IntRange(0, len(h.parts)-1).Draw(h.T, "partition")
	_, _, err := h.group.Pin(h.b.Context(), queue.DefaultTenant, h.queue, fmt.Sprint("p", i), "pinned", group.Start{Mode: "all"})
	h.must(err)
}

// consume takes some messages and completes them, or keeps the lease, of two hours and a half. The dead group never comes again.
func (h *history) consume(name string, complete bool) {
	sub, known := h.subs[name]
	if !known {
		return
	}
	part := rapid.SampledFrom(h.parts).Draw(h.T, "partition")
	request := group.ClaimRequest{
		Subscription: sub, Partitions: []int64{part.ID}, Lease: uuid.New(), LeaseSeconds: 3*3600 - 1800,
		Batch: rapid.IntRange(1, 4).Draw(h.T, "batch"), MaxBytes: 1 << 20, AtLeastOne: true, AutoAck: complete,
	}
	result, err := h.group.Claim(h.b.Context(), request)
	h.must(err)
	for _, c := range result.Claims {
		if c.Verdict == group.Took && len(c.Segments) == 0 {
			h.Fatalf("took %+v without segments", c)
		}
	}
}

func (h *history) forget() {
	name := rapid.SampledFrom(modelGroups).Draw(h.T, "group")
	_, err := h.group.Delete(h.b.Context(), queue.DefaultTenant, name, &h.queue, false)
	h.must(err)
	delete(h.subs, name)
}

func (h *history) seekBack() {
	i := rapid.IntRange(0, len(h.parts)-1).Draw(h.T, "partition")
	name := rapid.SampledFrom(modelGroups).Draw(h.T, "group")
	_, _, err := h.group.SeekPartition(h.b.Context(), queue.DefaultTenant, h.queue, fmt.Sprint("p", i), name, new(longAgo))
	h.must(err)
}

func (h *history) configure() {
	hours := rapid.SampledFrom([]int{0, 0, 1, 3, 6})
	h.rules.aged, h.rules.completed, h.rules.waited = hours.Draw(h.T, "aged"), hours.Draw(h.T, "completed"), hours.Draw(h.T, "waited")
	seconds := func(hours int) *int32 {
		if hours == 0 {
			return new(int32(0))
		}
		return new(int32(hours*3600 - 1800))
	}
	_, err := admin.New(h.b.db.Pool).Configure(h.b.Context(), queue.DefaultTenant, h.queue, queue.Options{
		RetentionEnabled: new(true), RetentionSeconds: seconds(h.rules.aged),
		CompletedRetentionSeconds: seconds(h.rules.completed), MaxWaitSeconds: seconds(h.rules.waited),
	})
	h.must(err)
}

// retain makes all the steps of a cycle, and compares with the oracle.
func (h *history) retain() {
	expected := h.expected()
	// Whatever was looked at in vain may be looked at again.
	h.b.exec(`UPDATE queen.retained SET segments_since = segments_since - interval '10 min' WHERE queue_id = $1`, h.id)
	for at := (retention.Position{}); ; {
		cut, err := h.b.store.Cut(h.b.Context(), h.b.hold, h.id, at, 2)
		h.must(err)
		if cut.Looked == 0 {
			break
		}
		if cut.Busy != 0 {
			h.Fatal("busy")
		}
		h.gone.Add(cut.Removed)
		at = cut.Next
	}
	for n := 2; n == 2; {
		var err error
		n, err = h.b.store.RemoveSegments(h.b.Context(), h.b.hold, h.id, 2)
		h.must(err)
	}
	for at, looked := (retention.Position{}), 1; looked > 0; {
		var err error
		looked, _, at, err = h.b.store.RemoveHashes(h.b.Context(), h.b.hold, h.id, at, 2, 1000)
		h.must(err)
	}
	if got := h.starts(); !slices.Equal(got, expected) {
		h.Fatalf("the logs begin at %v, want %v, rules %+v", got, expected, h.rules)
	}
	if h.gone != h.want {
		h.Fatalf("told %+v, want %+v", h.gone, h.want)
	}
	h.sound()
}

func (h *history) starts() []int64 {
	var starts []int64
	h.must(h.b.db.Pool.QueryRow(h.b.Context(), `SELECT array_agg(log_start ORDER BY id) FROM queen.partitions WHERE queue_id = $1`, h.id).Scan(&starts))
	return starts
}

// sound looks at what is stored after a cycle.
func (h *history) sound() {
	for what, sql := range map[string]string{
		"segments of the log are missing": `SELECT count(*) FROM queen.partitions p WHERE p.queue_id = $1 AND p.last_offset + 1 - p.log_start <>
			(SELECT coalesce(sum(s.end_offset + 1 - s.base_offset), 0) FROM queen.segments s WHERE s.partition_id = p.id AND s.base_offset >= p.log_start)`,
		"segments that are no part of the log": `SELECT count(*) FROM queen.partitions p JOIN queen.segments s ON s.partition_id = p.id AND s.base_offset < p.log_start WHERE p.queue_id = $1`,
		"dedup rows that are too old":          `SELECT count(*) FROM queen.partitions p JOIN queen.dedup d ON d.partition_id = p.id WHERE p.queue_id = $1 AND d.created_at < clock_timestamp() - interval '6 h'`,
		"segments of the last half hour without their dedup row": `SELECT count(*) FROM queen.partitions p JOIN queen.segments s ON s.partition_id = p.id
			WHERE p.queue_id = $1 AND s.created_at > clock_timestamp() - interval '30 min'
			  AND NOT EXISTS (SELECT FROM queen.dedup d WHERE d.partition_id = p.id AND d.base_offset = s.base_offset)`,
		"partitions that are not noted": `SELECT count(*) FROM queen.partitions p LEFT JOIN queen.retained r ON r.partition_id = p.id WHERE p.queue_id = $1 AND (
			(p.last_offset >= p.log_start AND r.segments_since IS NULL) OR (r.hashes_since IS NULL AND EXISTS (SELECT FROM queen.dedup d WHERE d.partition_id = p.id))
			OR r.trash)`,
	} {
		if n := h.b.value(sql, h.id); n != 0 {
			h.Fatalf("%d: %s", n, what)
		}
	}
	if n := h.b.value(`SELECT count(*) FROM queen.partitions p LEFT JOIN LATERAL (SELECT sum(d.end_offset + 1 - d.base_offset) AS n, max(d.end_offset) AS last
		FROM queen.dedup d WHERE d.partition_id = p.id) d ON true WHERE p.queue_id = $1 AND d.n > 0 AND d.last <> p.last_offset`, h.id); n != 0 {
		h.Fatalf("%d partitions have lost dedup rows from the new end", n)
	}
}
