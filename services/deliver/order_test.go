package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// TestTwoProcesses_OrderHoldsAndNobodyHoldsALeaseTwice has consumers of two processes work on the same partitions while they
// are being written. Some die with their lease, some give messages back. Each partition is completed in order, and no
// message is in two hands while its lease lives.
func TestTwoProcesses_OrderHoldsAndNobodyHoldsALeaseTwice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	processes := []*process{b.process, start(t, b.database.Config, func(*settings) {})}
	const partitions, perPartition, consumers = 8, 40, 6

	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	var actors sync.WaitGroup
	actors.Go(func() {
		for n := range perPartition {
			for p := range partitions {
				b.push("q", fmt.Sprint(p), strconv.Itoa(n))
			}
		}
	})
	ledger := newLedger()
	var completed atomic.Int64
	for n := range consumers {
		process := processes[n%len(processes)]
		actors.Go(func() {
			for round := n; ctx.Err() == nil && completed.Load() < partitions*perPartition; round++ {
				got, err := process.popContext(ctx, "/queue/q?wait=true&timeout=300&batch=7&partitions=2&leaseSeconds=3600")
				if err != nil || got.Status != http.StatusOK && got.Status != http.StatusNoContent {
					t.Errorf("pop: %d %s %v", got.Status, got.Raw, err)
					return
				}
				if err := ledger.delivered(got); err != nil {
					t.Error(err)
				}
				status := "completed"
				if round%5 == 0 {
					status = "retry"
				}
				ledger.released(got, status == "completed")
				results, err := process.ack("", got.items(status)...)
				if err != nil {
					t.Errorf("ack: %v", err)
					return
				}
				for i, r := range results {
					if !r.Success || !r.LeaseReleased {
						t.Errorf("ack of %s of %s: %+v", r.TransactionID, got.Messages[i].Partition, r)
					}
				}
				if status == "completed" {
					completed.Add(int64(len(results)))
				}
			}
		})
	}
	actors.Wait()
	if got := completed.Load(); got != partitions*perPartition {
		t.Errorf("%d of %d messages were completed", got, partitions*perPartition)
	}
}

// ledger checks what consumers are given against what they have completed.
type ledger struct {
	mu    sync.Mutex
	next  map[string]int  // by partition: the first message that is not completed
	owned map[string]bool // partitions in somebody's hands
}

func newLedger() *ledger { return &ledger{next: map[string]int{}, owned: map[string]bool{}} }

func (l *ledger) delivered(p popped) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	expected := map[string]int{}
	for _, m := range p.Messages {
		want, seen := expected[m.Partition]
		if !seen {
			if l.owned[m.Partition] {
				return fmt.Errorf("partition %s is leased twice", m.Partition)
			}
			l.owned[m.Partition] = true
			want = l.next[m.Partition]
		}
		if m.TransactionID != strconv.Itoa(want) {
			return fmt.Errorf("partition %s gives message %s instead of %d", m.Partition, m.TransactionID, want)
		}
		expected[m.Partition] = want + 1
	}
	return nil
}

// released is called before the ack is sent: another consumer may have the partition before its answer is here.
func (l *ledger) released(p popped, completed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range p.Messages {
		l.owned[m.Partition] = false
		if completed {
			l.next[m.Partition]++
		}
	}
}

func TestManyPartitions_AreAllDrained(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.process = start(t, b.database.Config, func(s *settings) { s.RingLimit = 50 })
	const partitions = 400
	for p := range partitions {
		b.push("q", fmt.Sprint(p), fmt.Sprint(p))
	}
	var mu sync.Mutex
	seen := map[string]bool{}
	var consumers sync.WaitGroup
	for n := range 4 {
		consumers.Go(func() {
			for {
				got, err := b.pop(fmt.Sprint("/queue/q?leaseSeconds=3600&batch=10&partitions=", n*2))
				if err != nil || got.Status != http.StatusOK {
					if err != nil || got.Status != http.StatusNoContent {
						t.Errorf("pop: %d %s %v", got.Status, got.Raw, err)
					}
					return
				}
				mu.Lock()
				for _, m := range got.Messages {
					if seen[m.TransactionID] {
						t.Errorf("%s comes twice", m.TransactionID)
					}
					seen[m.TransactionID] = true
				}
				mu.Unlock()
			}
		})
	}
	consumers.Wait()
	if len(seen) != partitions {
		t.Errorf("%d of %d messages were delivered", len(seen), partitions)
	}
}

func TestRestart_ALeaseOutlivesTheProcessThatGaveIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a", "b")
	got := b.mustPop(http.StatusOK, "/queue/q?leaseSeconds=3600&batch=2")
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	b.process = start(t, b.database.Config, func(*settings) {})
	b.mustPop(http.StatusNoContent, "/queue/q")
	b.mustAck("", got.items("completed")...)
	if r := b.mustAck("", got.items("completed")...); !r[0].Noop || !r[1].Noop {
		t.Errorf("the same ack again: %+v", r)
	}
	b.mustPop(http.StatusNoContent, "/queue/q")
}

func TestClockLeap_NeitherEndsLiveLeasesNorMakesPollsSpin(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a")
	b.mustPop(http.StatusOK, "/queue/q?leaseSeconds=600")
	b.exec(`CREATE SCHEMA leapt`)
	b.exec(`CREATE FUNCTION leapt.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
		$$ SELECT pg_catalog.clock_timestamp() + interval '1 hour' $$`)
	for _, function := range []string{"claim", "find_candidates"} {
		b.exec(`ALTER FUNCTION queen.` + function + ` SET search_path = leapt, pg_catalog`)
	}
	for _, path := range []string{"/queue/q", "/queue/q/partition/p", "/queue/q?wait=true&timeout=700", "/queue/q/partition/p?wait=true&timeout=700"} {
		b.mustPop(http.StatusNoContent, path)
	}
	if got := b.metric("queen_clock_leaps_total"); got != 1 {
		t.Errorf("%v leaps were counted", got)
	}
	if got := b.metric(`queen_claims_total{verdict="leased"}`); got > 30 {
		t.Errorf("%v claims met the lease", got)
	}
}
