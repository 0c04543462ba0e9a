package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"queen.internal/compose/local"
	"queen.internal/pkg/client"
	"queen.internal/test/internal/cell"
)

// buffered is the answer of status/buffers, of one ingest or of the edge.
type buffered struct {
	Pending, Failed int
	DBHealthy       bool
	Worker          int
	Servers         []struct {
		Server, Error   string
		Pending, Failed int
	}
}

func buffersOf(t *testing.T, c *cell.Cell, address string) (b buffered) {
	t.Helper()
	status, body := c.Do(t, address, http.MethodGet, "/api/v1/status/buffers", "")
	if err := json.Unmarshal(body, &b); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s %v", status, body, err)
	}
	return b
}

// awaitDrained waits until every ingest that answers has an empty spool.
func awaitDrained(t *testing.T, c *cell.Cell, ingests int) {
	t.Helper()
	cell.Eventually(t, func() bool {
		b := buffersOf(t, c, c.Edge)
		return b.Pending == 0 && b.DBHealthy && len(b.Servers) == ingests
	})
}

// storedIDs are the message ids of a queue by transaction id, as a fresh group reads them. A transaction that comes twice
// fails the test.
func storedIDs(t *testing.T, c *cell.Cell, queue string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for {
		batch := c.Pop(t, client.PopRequest{Queue: queue, Group: "audit", Mode: "all", Batch: 1000, Partitions: 16})
		if len(batch.Messages) == 0 {
			return found
		}
		for _, m := range batch.Messages {
			if _, twice := found[m.TransactionID]; twice {
				t.Errorf("%s is stored twice", m.TransactionID)
			}
			found[m.TransactionID] = m.ID
		}
		c.AckAll(t, "audit", batch)
	}
}

// Two ingests take pushes while the database is down; both are killed while they spool, and one again while it replays.
func TestKilledIngestsLoseNothingThatTheyBuffered(t *testing.T) {
	t.Parallel()
	c := world.Own(t, local.Options{Ingest: 2, Deliver: 1})
	queue := cell.FreshQueue()
	c.Push(t, client.Item{Queue: queue, Partition: "p0", TransactionID: "first", Payload: []byte(`0`)})
	if err := c.Stack.KillDatabase(); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	announced := map[string]string{}
	push := func(ctx context.Context, round string, number, count int) {
		target := c.At(t, c.Ingest[number])
		for n := 0; n < count && ctx.Err() == nil; n++ {
			id := fmt.Sprintf("%s-%d-%d", round, number, n)
			results, err := target.Push(ctx, []client.Item{{Queue: queue, Partition: fmt.Sprint("p", n%4), TransactionID: id, Payload: []byte(`1`)}})
			if err != nil {
				continue // it was killed: the outcome is not known
			}
			if results[0].Status != client.Buffered {
				t.Errorf("%+v", results[0])
			}
			mu.Lock()
			announced[id] = results[0].MessageID
			mu.Unlock()
		}
	}
	for number := range 2 {
		push(t.Context(), "before", number, 50)
		load, stop := context.WithCancel(t.Context())
		var producing sync.WaitGroup
		producing.Go(func() { push(load, "load", number, 1<<20) })
		cell.Eventually(t, func() bool { return buffersOf(t, c, c.Ingest[number]).Pending > 80 })
		if err := c.Stack.Kill(local.Ingest, number+1); err != nil {
			t.Fatal(err)
		}
		stop()
		producing.Wait()
		if err := c.Stack.Launch(local.Ingest, number+1); err != nil {
			t.Fatal(err)
		}
		cell.Eventually(t, func() bool {
			resp, err := http.Get(c.Ingest[number] + "/readyz")
			return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
		})
		if b := buffersOf(t, c, c.Ingest[number]); b.Pending < 80 || b.DBHealthy {
			t.Errorf("after its start ingest %d knows of %+v", number+1, b)
		}
		push(t.Context(), "after", number, 10)
	}
	if err := c.Stack.StartDatabase(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Somewhere in the replay of what it had spooled, or just after it.
	if err := c.Stack.Kill(local.Ingest, 1); err != nil {
		t.Fatal(err)
	}
	if err := c.Stack.Restart(t.Context(), local.Ingest, 1); err != nil {
		t.Fatal(err)
	}
	awaitDrained(t, c, 2)
	found := storedIDs(t, c, queue)
	for id, message := range announced {
		if found[id] != message {
			t.Errorf("%s was announced as %s and is stored as %q", id, message, found[id])
		}
	}
	if len(announced) < 2*60 { // those from before and after the kills
		t.Errorf("only %d answers", len(announced))
	}
}

// The kernel's own "no space left", on a disk of half a megabyte.
func TestAFullDiskFailsItemsAndHeals(t *testing.T) {
	t.Parallel()
	disk := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(disk, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=512k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	c := world.Own(t, local.Options{ServiceEnv: map[string][]string{local.Ingest: {"FILE_BUFFER_DIR=" + filepath.Join(disk, "spool"), "QUEEN_SPOOL_MIN_FREE_BYTES=0"}}})
	queue := cell.FreshQueue()
	if err := c.Stack.StopDatabase(t.Context()); err != nil {
		t.Fatal(err)
	}
	payload := fmt.Sprintf("%q", strings.Repeat("0123456789abcdef", 16))
	announced, failed := map[string]string{}, 0
	for n := 0; failed < 20; n++ {
		item := client.Item{Queue: queue, TransactionID: fmt.Sprint(n), Payload: []byte(payload)}
		for range 60 { // no two alike, so that they do not shrink much
			item.Payload = fmt.Appendf(item.Payload[:len(item.Payload)-1], `%x"`, uint64(n+1)*0x9E3779B97F4A7C15+uint64(len(item.Payload)))
		}
		results, err := c.At(t, c.Ingest[0]).Push(t.Context(), []client.Item{item})
		if err != nil {
			t.Fatal(err)
		}
		switch results[0].Status {
		case client.Buffered:
			announced[item.TransactionID] = results[0].MessageID
		case client.Failed:
			failed++
		default:
			t.Fatalf("%+v", results[0])
		}
	}
	if b := buffersOf(t, c, c.Edge); b.Failed != failed || b.Pending != len(announced) || len(announced) < 50 {
		t.Errorf("%+v with %d announced and %d failed", b, len(announced), failed)
	}
	if err := c.Stack.StartDatabase(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitDrained(t, c, 1)
	c.Push(t, client.Item{Queue: queue, TransactionID: "after", Payload: []byte(`1`)})
	found := storedIDs(t, c, queue)
	if len(found) != len(announced)+1 {
		t.Errorf("%d stored, %d announced", len(found), len(announced))
	}
	for id, message := range announced {
		if found[id] != message {
			t.Errorf("%s was announced as %s and is stored as %q", id, message, found[id])
		}
	}
}

// A consumer that waits gets what comes out of the spool at once, not when it happens to look.
func TestReplayedMessagesWakeParkedPolls(t *testing.T) {
	t.Parallel()
	c := world.Own(t, local.Options{})
	queue := cell.FreshQueue()
	c.Push(t, client.Item{Queue: queue, Payload: []byte(`0`)})
	c.AckAll(t, "g", c.Pop(t, client.PopRequest{Queue: queue, Group: "g", Mode: "all"}))
	if err := c.Stack.KillDatabase(); err != nil {
		t.Fatal(err)
	}
	results, err := c.At(t, c.Ingest[0]).Push(t.Context(), []client.Item{{Queue: queue, Payload: []byte(`1`)}})
	if err != nil || results[0].Status != client.Buffered {
		t.Fatalf("%+v %v", results, err)
	}
	if err := c.Stack.StartDatabase(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitDrained(t, c, 1)
	cell.Eventually(t, func() bool {
		batch, err := c.Client(t).Pop(t.Context(), client.PopRequest{Queue: queue, Group: "g"})
		return err == nil && len(batch.Messages) == 1 && batch.Messages[0].ID == results[0].MessageID
	})
}
