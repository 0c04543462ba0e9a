package segments

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.CheckLeaks) }

// bench is a Reader on a database with one partition.
type bench struct {
	*testing.T
	*Reader
	database  pgtest.Database
	metrics   *prometheus.Registry
	log       *log.Store
	partition log.Partition
}

func setup(t *testing.T, bytes int64) *bench {
	t.Helper()
	database := pgtest.New(t)
	store := log.New(database.Pool)
	partitions, err := store.Ensure(t.Context(), []log.Key{{Tenant: queue.DefaultTenant, Queue: "q", Partition: "p"}})
	if err != nil {
		t.Fatal(err)
	}
	lookups := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lookups"}, []string{"result"})
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(lookups)
	return &bench{
		metrics: metrics, T: t, database: database, log: store, partition: partitions[0],
		Reader: New(Options{Log: store, Bytes: bytes, Parallel: 1, Timeout: time.Minute, Lookups: lookups}),
	}
}

// write appends a segment of messages with these ids, and returns its name.
func (b *bench) write(tag int64, ids ...string) group.SegmentName {
	b.Helper()
	run := log.Run{Partition: b.partition, Tag: tag}
	var messages []segment.Message
	for _, id := range ids {
		messages = append(messages, segment.Message{ID: queue.NewID(), TransactionID: id, Payload: []byte(`"` + strings.Repeat("x", 200) + `"`)})
		run.Hashes = append(run.Hashes, queue.TransactionHash(id))
	}
	run.Segment = segment.Encode(messages)
	placed, err := b.log.Append(b.Context(), []log.Run{run}, log.AppendOptions{Wait: true})
	if err != nil || placed[0].Verdict != log.Appended {
		b.Fatal(placed, err)
	}
	return group.SegmentName{Base: placed[0].Base, Tag: tag}
}

func (b *bench) exec(sql string, args ...any) {
	b.Helper()
	if _, err := b.database.Pool.Exec(b.Context(), sql, args...); err != nil {
		b.Fatal(err)
	}
}

// read is the ids of what is found.
func (b *bench) read(names ...group.SegmentName) string {
	b.Helper()
	spans := []Span{{Partition: b.partition.ID, Segments: names}}
	if err := b.Read(b.Context(), queue.DefaultTenant, spans); err != nil || spans[0].Err != nil {
		b.Fatal(err, spans[0].Err)
	}
	var ids []string
	for _, s := range spans[0].Found {
		for i := range s.Messages {
			ids = append(ids, s.Messages[i].TransactionID)
		}
	}
	return strings.Join(ids, " ")
}

func (b *bench) lookups(hits, misses float64) {
	b.Helper()
	families, err := b.metrics.Gather()
	if err != nil {
		b.Fatal(err)
	}
	got := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	if diff := cmp.Diff(map[string]float64{"hit": hits, "miss": misses}, got); diff != "" {
		b.Error(diff)
	}
}

func TestRead_WhatIsInMemoryIsNotAskedFor(t *testing.T) {
	t.Parallel()
	b := setup(t, 1<<20)
	s1, s2, s3, s4 := b.write(1, "a", "b"), b.write(2, "c"), b.write(3, "d"), b.write(4, "e")
	for _, step := range []struct {
		names        []group.SegmentName
		want         string
		hits, misses float64
	}{
		{[]group.SegmentName{s2}, "c", 0, 1},
		{[]group.SegmentName{s1, s2, s3, s4}, "a b c d e", 1, 4}, // two runs around what is known
		{[]group.SegmentName{s1, s2, s3, s4}, "a b c d e", 5, 4},
	} {
		if got := b.read(step.names...); got != step.want {
			t.Errorf("read %q, want %q", got, step.want)
		}
		b.lookups(step.hits, step.misses)
	}
	b.exec(`DELETE FROM queen.segments`)
	if got := b.read(s1, s2, s3, s4); got != "a b c d e" {
		t.Errorf("from memory alone: %q", got)
	}
	if n, bytes := b.Size(); n != 4 || bytes < 5*200 || bytes > 5*400 {
		t.Errorf("%d segments of %d bytes", n, bytes)
	}
}

// A failover to a server that had not got the last segment yet: another one is written in its place. What memory has of the
// first is neither delivered as the second nor lost for whoever claimed it.
func TestRead_AnotherTagIsAnotherSegment(t *testing.T) {
	t.Parallel()
	for name, bytes := range map[string]int64{"Cached": 1 << 20, "NotCached": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, bytes)
			kept, lost := b.write(1, "kept"), b.write(2, "lost", "lost too")
			if got := b.read(kept, lost); got != "kept lost lost too" {
				t.Fatal(got)
			}
			b.exec(`DELETE FROM queen.segments WHERE base_offset >= $1`, lost.Base)
			b.exec(`DELETE FROM queen.dedup WHERE base_offset >= $1`, lost.Base)
			b.exec(`UPDATE queen.partitions SET last_offset = $1 - 1`, lost.Base)
			other := b.write(3, "other", "after it")
			if other.Base != lost.Base {
				t.Fatalf("%+v does not stand where %+v did", other, lost)
			}
			for range 2 {
				if got := b.read(kept, other); got != "kept other after it" {
					t.Errorf("read %q", got)
				}
			}
			want := "lost lost too"
			if bytes == 0 {
				want = "" // and not what stands there now
			}
			if got := b.read(lost); got != want {
				t.Errorf("of the lost one: %q, want %q", got, want)
			}
		})
	}
}

func TestRead_KeepsNoMoreThanItMay(t *testing.T) {
	t.Parallel()
	const limit = 2000
	b := setup(t, limit)
	var names []group.SegmentName
	for i := range 20 {
		names = append(names, b.write(int64(i+1), fmt.Sprint("m", i)))
	}
	large := b.write(99, strings.Split(strings.Repeat("l ", 12)[:23], " ")...)
	for i, name := range names {
		if got := b.read(name); got != fmt.Sprint("m", i) {
			t.Errorf("%d: %q", i, got)
		}
		b.read(names[0]) // asked for again and again, so it stays
		if n, bytes := b.Size(); bytes > limit || n > i+1 {
			t.Fatalf("%d segments of %d bytes after %d", n, bytes, i+1)
		}
	}
	n, bytes := b.Size()
	if n < 3 || bytes < limit/2 {
		t.Errorf("%d segments of %d bytes", n, bytes)
	}
	b.read(large)
	if n2, bytes2 := b.Size(); n2 != n || bytes2 != bytes {
		t.Errorf("one above the limit is kept: %d segments of %d bytes", n2, bytes2)
	}
	b.lookups(20, 21)
	if got := b.read(names[1], names[19]); got != "m1 m19" {
		t.Errorf("read %q", got)
	}
	b.lookups(21, 22)
}

func TestRead_WhatRetentionHasRemovedIsAbsent(t *testing.T) {
	t.Parallel()
	b := setup(t, 0)
	s1, s2, s3 := b.write(1, "a"), b.write(2, "b"), b.write(3, "c")
	b.exec(`DELETE FROM queen.segments WHERE base_offset = $1`, s2.Base)
	if got := b.read(s1, s2, s3); got != "a c" {
		t.Errorf("read %q", got)
	}
}

func TestRead_ADamagedSegmentFailsItsSpanAlone(t *testing.T) {
	t.Parallel()
	b := setup(t, 1<<20)
	good, bad := b.write(1, "a"), b.write(2, "b")
	b.exec(`UPDATE queen.segments SET payload = '\xff' WHERE base_offset = $1`, bad.Base)
	spans := []Span{{Partition: b.partition.ID, Segments: []group.SegmentName{bad}}, {Partition: b.partition.ID, Segments: []group.SegmentName{good}}}
	if err := b.Read(t.Context(), queue.DefaultTenant, spans); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(spans[0].Err, segment.ErrCorrupt) || spans[1].Err != nil || len(spans[1].Found) != 1 {
		t.Errorf("%+v", spans)
	}
}

func TestRead_ManyAtOnceShareCalls(t *testing.T) {
	t.Parallel()
	b := setup(t, 3000)
	var names []group.SegmentName
	var want []string
	for i := range 30 {
		want = append(want, fmt.Sprint("m", i))
		names = append(names, b.write(int64(i+1), want[i]))
	}
	var readers sync.WaitGroup
	for i := range 16 {
		readers.Go(func() {
			for range 20 {
				spans := []Span{{Partition: b.partition.ID, Segments: names[i : i+10]}}
				if err := b.Read(t.Context(), queue.DefaultTenant, spans); err != nil {
					t.Error(err)
					return
				}
				var got []string
				for _, s := range spans[0].Found {
					got = append(got, s.Messages[0].TransactionID)
				}
				if diff := cmp.Diff(want[i:i+10], got); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
	readers.Wait()
}
