package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"queen.internal/compose/local"
	"queen.internal/pkg/client"
	"queen.internal/test/internal/cell"
)

// rawPop sends a pop over a connection of its own and leaves the answer to the test.
func rawPop(t *testing.T, address, path string) *net.TCPConn {
	t.Helper()
	base, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", base.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // some tests have closed it
	if _, err := fmt.Fprintf(conn, "GET /api/v1/pop/queue/%s HTTP/1.1\r\nHost: %s\r\n\r\n", path, base.Host); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
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

// deliveredOnce pops the span that was given back. Its lease was for an hour, so nothing but a give-back frees it, and no
// delivery may have been counted.
func deliveredOnce(t *testing.T, c *cell.Cell, queue string, want ...string) {
	t.Helper()
	batch := c.Pop(t, client.PopRequest{Queue: queue, Batch: 100, Wait: 50 * time.Second})
	if diff := cmp.Diff(want, cell.Transactions(batch)); diff != "" {
		t.Fatal(diff)
	}
	for _, m := range batch.Messages {
		if m.DeliveryAttempt != 1 {
			t.Errorf("message %s is delivered for the %d. time", m.TransactionID, m.DeliveryAttempt)
		}
	}
	c.AckAll(t, "", batch)
}

func TestAClientThatVanishesWhileItsAnswerIsWrittenLeavesNothingLeased(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := cell.FreshQueue()
	large := bytes.Repeat([]byte("x"), 3<<20)
	large[0], large[len(large)-1] = '"', '"'
	var want []string
	for i := range 5 { // more than all the sockets on the way hold
		want = append(want, fmt.Sprint(i))
		c.Push(t, client.Item{Queue: queue, TransactionID: want[i], Payload: large})
	}
	for range 2 {
		conn := rawPop(t, c.Edge, queue+"?batch=100&wait=true&timeout=50000&leaseSeconds=3600")
		if n, err := conn.Read(make([]byte, 100)); n == 0 {
			t.Fatal(err)
		}
		vanish(t, conn)
	}
	deliveredOnce(t, c, queue, want...)
}

// gate makes every read of segments wait until open is called; waiting returns when one waits.
func gate(t *testing.T, c *cell.Cell) (waiting, open func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.Stack.DSN())
	if err != nil {
		t.Fatal(err)
	}
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`ALTER FUNCTION queen.read_segments RENAME TO read_segments_behind`)
	exec(`CREATE FUNCTION queen.read_segments(p_partitions bigint[], p_firsts bigint[], p_lasts bigint[])
		RETURNS TABLE (place integer, base_offset bigint, end_offset bigint, created_at timestamptz, tag bigint, raw_bytes integer, codec smallint, payload bytea)
		LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM pg_advisory_xact_lock_shared(7);
			RETURN QUERY SELECT * FROM queen.read_segments_behind(p_partitions, p_firsts, p_lasts);
		END $$`)
	exec(`SELECT pg_advisory_lock(7)`)
	waiting = func() {
		t.Helper()
		cell.Eventually(t, func() bool {
			var reads int
			if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7 AND NOT granted`).Scan(&reads); err != nil {
				t.Fatal(err)
			}
			return reads > 0
		})
	}
	open = func() {
		t.Helper()
		exec(`SELECT pg_advisory_unlock(7)`)
		if err := conn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return waiting, open
}

func TestAClientThatVanishesBeforeItsAnswerLeavesNothingLeased(t *testing.T) {
	t.Parallel()
	c := world.Own(t, local.Options{Deliver: 2})
	queue := cell.FreshQueue()
	c.PushNumbered(t, queue, 3)
	waiting, open := gate(t, c)
	conn := rawPop(t, c.Edge, queue+"?batch=100&leaseSeconds=3600")
	waiting()
	vanish(t, conn)
	open()
	deliveredOnce(t, c, queue, "0", "1", "2")
}

func TestADeliverKilledBetweenTheLeaseAndTheAnswerCostsOneLeaseTime(t *testing.T) {
	t.Parallel()
	c := world.Own(t, local.Options{})
	queue := cell.FreshQueue()
	c.PushNumbered(t, queue, 3)
	waiting, open := gate(t, c)
	conn := rawPop(t, c.Edge, queue+"?batch=100&leaseSeconds=2")
	waiting()
	if err := c.Stack.Kill(local.Deliver, 1); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode < 500 {
		t.Errorf("the pop is answered %d, %v", answer.StatusCode, err)
	}
	open()
	if err := c.Stack.Launch(local.Deliver, 1); err != nil {
		t.Fatal(err)
	}
	if err := c.Stack.AwaitHealthy(t.Context(), local.Deliver, 1); err != nil {
		t.Fatal(err)
	}
	var batch client.Batch
	cell.Eventually(t, func() bool { // the edge takes a moment to see that deliver is back
		batch, err = c.Client(t).Pop(t.Context(), client.PopRequest{Queue: queue, Batch: 100, Wait: 20 * time.Second})
		return err == nil && len(batch.Messages) > 0
	})
	if diff := cmp.Diff([]string{"0", "1", "2"}, cell.Transactions(batch)); diff != "" {
		t.Error(diff)
	}
	if batch.Messages[0].DeliveryAttempt != 2 {
		t.Errorf("delivered for the %d. time", batch.Messages[0].DeliveryAttempt)
	}
}
