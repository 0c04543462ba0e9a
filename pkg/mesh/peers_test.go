package mesh

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/logging"
)

// hall is a table with its log and a clock of its own.
type hall struct {
	*table
	log     bytes.Buffer
	now     time.Time
	watched bucketSet
}

func newHall() *hall {
	h := &hall{now: time.Unix(1000, 0)}
	h.table = newTable("me-deliver", 5*time.Second, logging.For(logging.New(&h.log, logging.Settings{}), "mesh"))
	h.watched.add(1)
	h.watched.add(2)
	return h
}

// hears is a heartbeat of that boot.
func (h *hall) hears(boot uint64, id string, sequence ...uint64) []Gap {
	b := &beat{ID: id, Role: "ingest", Started: int64(boot)}
	copy(b.sequence[:], sequence)
	return h.beat(boot, b, h.watched, h.now)
}

func (h *hall) gets(boot uint64, bucket int, seq uint64) []Gap {
	_, _, gaps := h.number(header{boot: boot, bucket: bucket, seq: seq}, h.now)
	return gaps
}

func (h *hall) passes(d time.Duration) []Gap {
	h.now = h.now.Add(d)
	return h.expire(h.now)
}

// lines are what was logged, without time.
func (h *hall) lines() (lines []string) {
	for line := range strings.Lines(h.log.String()) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		lines = append(lines, text)
	}
	return lines
}

func causesOf(gaps []Gap) (list []Cause) {
	for _, g := range gaps {
		list = append(list, g.Cause)
	}
	return list
}

func wantCauses(t *testing.T, what string, got []Gap, want ...Cause) {
	t.Helper()
	if !slices.Equal(causesOf(got), want) {
		t.Errorf("%s: %v, want %v", what, causesOf(got), want)
	}
}

func TestAHoleInAWatchedSequenceIsAGapAndNothingElseIs(t *testing.T) {
	t.Parallel()
	h := newHall()
	wantCauses(t, "first heartbeat", h.hears(1, "a", 10, 10, 10), CauseNewPeer)
	wantCauses(t, "next", h.gets(1, 1, 11))
	wantCauses(t, "next", h.gets(1, 1, 12))
	wantCauses(t, "late", h.gets(1, 1, 11))
	wantCauses(t, "heartbeat that tells what came", h.hears(1, "a", 10, 12, 10))
	wantCauses(t, "heartbeat of what nobody here watches", h.hears(1, "a", 99, 12, 10))
	wantCauses(t, "hole before a message", h.gets(1, 1, 14), CauseLost)
	wantCauses(t, "after the hole", h.gets(1, 1, 15))
	gaps := h.hears(1, "a", 99, 15, 11)
	wantCauses(t, "hole at the end", gaps, CauseLost)
	if !gaps[0].set.has(2) || gaps[0].set.has(1) || gaps[0].Peer != "a" {
		t.Errorf("%+v", gaps[0])
	}
	wantCauses(t, "told once", h.hears(1, "a", 99, 15, 11))
	b := &beat{ID: "a"}
	copy(b.sequence[:], []uint64{99, 15, 11})
	b.sequence[configBucket] = 1
	gaps = h.beat(1, b, bucketSet{}, h.now)
	wantCauses(t, "queue change lost", gaps, CauseLost)
	if !gaps[0].Config() || gaps[0].set.has(1) {
		t.Errorf("%+v", gaps[0])
	}
	wantCauses(t, "message of a boot without a heartbeat", h.gets(2, 1, 7))
}

func TestAPeerThatFallsSilentIsReportedOnceAndOnceWhenItReturns(t *testing.T) {
	t.Parallel()
	h := newHall()
	h.hears(1, "a")
	wantCauses(t, "quiet", h.passes(4999*time.Millisecond))
	h.gets(1, 1, 1) // a hint is a sign of life
	wantCauses(t, "quiet", h.passes(4999*time.Millisecond))
	wantCauses(t, "silent", h.passes(time.Millisecond), CausePeerDown)
	wantCauses(t, "silent", h.passes(time.Minute))
	if peers := h.peers(); len(peers) != 1 || peers[0].Alive || peers[0].ID != "a" {
		t.Errorf("peers %+v", peers)
	}
	wantCauses(t, "back", h.hears(1, "a"), CauseNewPeer)
	h.hears(1, "a")
	want := []string{
		"INFO mesh: peer joined peer=a role=ingest version=", "WARN mesh: peer down peer=a threshold_ms=5000",
		"INFO mesh: peer recovered peer=a",
	}
	for i, line := range h.lines() {
		if i >= len(want) || !strings.HasPrefix(line, want[i]) {
			t.Errorf("line %d: %s", i, line)
		}
	}
	if len(h.lines()) != len(want) {
		t.Error(h.log.String())
	}
}

func TestALaterBootTakesThePlaceOfTheOneThatDied(t *testing.T) {
	t.Parallel()
	h := newHall()
	h.hears(1, "a", 0, 50)
	wantCauses(t, "restart", h.hears(2, "a", 0, 1), CauseNewPeer)
	wantCauses(t, "its numbers", h.gets(2, 1, 2))
	h.now = h.now.Add(4 * time.Second)
	h.hears(2, "a", 0, 2)
	wantCauses(t, "nothing is down", h.passes(4*time.Second))
	if peers := h.peers(); len(peers) != 1 || !peers[0].Alive {
		t.Errorf("peers %+v", peers)
	}
	if strings.Contains(h.log.String(), "peer down") {
		t.Error(h.log.String())
	}
}

func TestTwoProcessesWithOneIDAreReportedOnceAndBothHeard(t *testing.T) {
	t.Parallel()
	h := newHall()
	h.hears(1, "a")
	h.hears(2, "a")
	for range 3 {
		h.hears(1, "a")
		h.hears(2, "a")
	}
	h.hears(9, "me-deliver")
	if n := strings.Count(h.log.String(), "two processes use one server id, set QUEEN_SERVER_ID"); n != 2 {
		t.Errorf("%d reports:\n%s", n, h.log.String())
	}
	wantCauses(t, "the first", h.gets(1, 1, 2), CauseLost)
	wantCauses(t, "the second", h.gets(2, 1, 1))
}

func TestAPeerThatLeavesIsNotReportedDown(t *testing.T) {
	t.Parallel()
	h := newHall()
	h.hears(1, "a", 0, 5)
	b := &beat{ID: "a", Leaving: true}
	b.sequence[1] = 6
	wantCauses(t, "its last hint was lost", h.beat(1, b, h.watched, h.now), CauseLost)
	wantCauses(t, "later", h.passes(time.Hour))
	wantCauses(t, "a late good-bye", h.beat(1, b, h.watched, h.now))
	if diff := cmp.Diff([]Peer{}, h.peers(), cmp.AllowUnexported(Peer{})); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(h.log.String(), "peer down") || !strings.Contains(h.log.String(), "peer left peer=a") {
		t.Error(h.log.String())
	}
}

func TestAPeerThatWasToldToStopIsNeverReportedDown(t *testing.T) {
	t.Parallel()
	h := newHall()
	h.hears(1, "a")
	h.beat(1, &beat{ID: "a", Draining: true}, h.watched, h.now)
	if peers := h.peers(); len(peers) != 1 || !peers[0].Draining || !peers[0].Alive {
		t.Errorf("%+v", peers)
	}
	wantCauses(t, "killed before it said good-bye", h.passes(time.Minute), CausePeerDown)
	if strings.Contains(h.log.String(), "peer down") || !strings.Contains(h.log.String(), "peer left peer=a") || len(h.peers()) != 0 {
		t.Error(h.log.String())
	}
}

func TestPeersRememberedAreBounded(t *testing.T) {
	t.Parallel()
	h := newHall()
	for boot := range uint64(3 * maxPeers) {
		h.hears(boot, strings.Repeat("x", int(boot%7))+"-"+time.Duration(boot).String())
	}
	if n := len(h.peers()); n != maxPeers {
		t.Errorf("%d live", n)
	}
	h.passes(time.Minute)
	h.passes(2 * time.Hour)
	if n := len(h.peers()); n != 0 {
		t.Errorf("%d are still told of", n)
	}
}
