package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/testkit"
)

// rawPop sends a pop and leaves the answer to the test.
func (b *bundle) rawPop(path string) *net.TCPConn {
	b.t.Helper()
	base, err := url.Parse(b.url)
	if err != nil {
		b.t.Fatal(err)
	}
	conn, err := net.Dial("tcp", base.Host)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() }) // most tests have closed it
	if _, err := fmt.Fprintf(conn, "GET /api/v1/pop%s HTTP/1.1\r\nHost: %s\r\n\r\n", path, base.Host); err != nil {
		b.t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

func (b *bundle) givenBack(reason string, n int) {
	b.t.Helper()
	testkit.Eventually(b.t, "given back", func() bool {
		_, _, body, err := b.do(context.Background(), http.MethodGet, "/metrics/prometheus", "")
		return err == nil && strings.Contains(string(body), fmt.Sprintf("queen_leases_given_back_total{reason=%q} %d\n", reason, n))
	})
}

// gate makes reads of segments wait for the advisory lock that it holds; open lets them go.
func (b *bundle) gate() (waiting func(n int), open func()) {
	b.t.Helper()
	b.exec(`ALTER FUNCTION queen.read_segments RENAME TO read_segments_behind`)
	b.exec(`CREATE FUNCTION queen.read_segments(p_partitions bigint[], p_firsts bigint[], p_lasts bigint[])
		RETURNS TABLE (place integer, base_offset bigint, end_offset bigint, created_at timestamptz, tag bigint, raw_bytes integer, codec smallint, payload bytea)
		LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM pg_advisory_xact_lock_shared(7);
			RETURN QUERY SELECT * FROM queen.read_segments_behind(p_partitions, p_firsts, p_lasts);
		END $$`)
	holder, err := b.database.Pool.Acquire(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	advisory := func(call string) {
		b.t.Helper()
		if _, err := holder.Exec(context.Background(), "SELECT "+call); err != nil {
			b.t.Fatal(err)
		}
	}
	advisory("pg_advisory_lock(7)")
	waiting = func(n int) {
		b.t.Helper()
		testkit.Eventually(b.t, "a read that waits", func() bool {
			var reads int
			err := holder.QueryRow(context.Background(), `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
				WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.objid = 7 AND NOT l.granted`).Scan(&reads)
			if err != nil {
				b.t.Fatal(err)
			}
			return reads == n
		})
	}
	open = func() {
		b.t.Helper()
		advisory("pg_advisory_unlock(7)")
		holder.Release()
	}
	return waiting, open
}

// vanish resets a connection: the other side can neither read nor write from now on.
func vanish(t *testing.T, conn *net.TCPConn) {
	t.Helper()
	if err := conn.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestGiveBack_AClientThatVanishesDuringTheAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "other", "0")
	large := bytes.Repeat([]byte("x"), 3<<20)
	large[0], large[len(large)-1] = '"', '"'
	for i := range 5 { // more than sockets hold
		b.pushPayloads("q", "p", []string{fmt.Sprint(i)}, [][]byte{large})
	}
	for round := 1; round <= 3; round++ {
		conn := b.rawPop("/queue/q?batch=100&partitions=0&leaseSeconds=3600")
		if n, err := conn.Read(make([]byte, 100)); n == 0 {
			t.Fatal(err)
		}
		vanish(t, conn)
		b.givenBack("unwritten", 2*round)
	}
	got := b.mustPop(http.StatusOK, "/queue/q?batch=100&partitions=0")
	if len(got.Messages) != 6 || got.PartitionsClaimed != 2 {
		t.Errorf("%d messages of %d partitions", len(got.Messages), got.PartitionsClaimed)
	}
	for _, m := range got.Messages {
		if m.DeliveryAttempt != 1 {
			t.Errorf("message %s is delivered for the %d. time", m.TransactionID, m.DeliveryAttempt)
		}
	}
}

func TestGiveBack_AClientThatVanishesBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	b := setupWith(t, func(s *settings) { s.SegmentCache = 0 })
	b.push("q", "p", "a")
	for round, path := range []string{
		"/queue/q?leaseSeconds=3600", "/queue/q/partition/p?leaseSeconds=3600", "?namespace=q&leaseSeconds=3600&wait=true",
	} {
		waiting, open := b.gate()
		conn := b.rawPop(path)
		waiting(1)
		vanish(t, conn)
		open()
		b.givenBack("unwritten", round+1)
		b.exec(`DROP FUNCTION queen.read_segments`)
		b.exec(`ALTER FUNCTION queen.read_segments_behind RENAME TO read_segments`)
	}
	got := b.mustPop(http.StatusOK, "/queue/q")
	if got.ids() != "a" || got.Messages[0].DeliveryAttempt != 1 {
		t.Errorf("%s", got.Raw)
	}
}

func TestGiveBack_TellsWhoWaits(t *testing.T) {
	t.Parallel()
	// The backstop looks once an hour here: only the give-back can be the reason.
	b := setup(t)
	b.process = start(t, b.database.Config, func(s *settings) { s.WaitInitial, s.WaitMax = 3_600_000, 3_600_000 })
	b.push("q.x", "p", "a")
	for _, path := range []string{"/queue/q.x?wait=true&timeout=60000", "/queue/q.x/partition/p?wait=true&timeout=60000", "?namespace=q&wait=true&timeout=60000"} {
		first := b.mustPop(http.StatusOK, "/queue/q.x?leaseSeconds=3600")
		answer := b.later(path + "&leaseSeconds=3600")
		b.parked(1)
		b.release(first.LeaseID, true, 1)
		second := answer()
		if second.ids() != "a" || second.Messages[0].DeliveryAttempt != 1 {
			t.Errorf("%s answers %d %s", path, second.Status, second.Raw)
		}
		b.release(second.LeaseID, true, 1)
		b.release(second.LeaseID, false, 0)
	}
}

// release posts a lease back as an edge does.
func (b *bundle) release(lease string, success bool, released int) {
	b.t.Helper()
	status, _, body, err := b.do(context.Background(), http.MethodPost, "/internal/api/lease/"+url.PathEscape(lease)+"/release", "")
	want := fmt.Sprintf(`{"leaseId":%q,"success":%t,"released":%d}`, lease, success, released)
	if err != nil || status != http.StatusOK || string(body) != want {
		b.t.Errorf("release answers %d %s %v, want %s", status, body, err, want)
	}
}

func TestGiveBack_OfWhatIsNoLeaseOrNoLongerOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a", "b")
	for _, lease := range []string{queue.NewID().String(), "nonsense", "a/b"} {
		b.release(lease, false, 0)
	}
	acked := b.mustPop(http.StatusOK, "/queue/q?batch=1")
	b.mustAck("", acked.items("completed")...)
	b.release(acked.LeaseID, false, 0)
	held := b.mustPop(http.StatusOK, "/queue/q")
	b.release(acked.LeaseID, false, 0)
	b.mustPop(http.StatusNoContent, "/queue/q")
	b.mustAck("", held.items("completed")...)
}

func TestGiveBack_AtAnotherProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p1", "a")
	b.push("q", "p2", "b")
	got := b.mustPop(http.StatusOK, "/queue/q?partitions=0&leaseSeconds=3600")
	b.process = start(t, b.database.Config, func(*settings) {})
	b.release(got.LeaseID, true, 2)
	if again := b.mustPop(http.StatusOK, "/queue/q?partitions=0"); len(again.Messages) != 2 || again.Messages[0].DeliveryAttempt != 1 {
		t.Errorf("%s", again.Raw)
	}
}

func TestGiveBack_IsPerTenant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.process = start(t, b.database.Config, func(s *settings) { s.Header = true })
	b.push("q", "p", "a")
	got := b.mustPop(http.StatusOK, "/queue/q?leaseSeconds=3600")
	req, err := http.NewRequest(http.MethodPost, b.url+"/internal/api/lease/"+got.LeaseID+"/release", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-queen-tenant", queue.NewID().String())
	res, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("%d %v", res.StatusCode, err)
	}
	b.mustPop(http.StatusNoContent, "/queue/q")
	b.release(got.LeaseID, true, 1)
}
