package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"queen.internal/compose/local"
	"queen.internal/pkg/client"
	"queen.internal/test/internal/cell"
)

const (
	pushMaintenance = "/api/v1/system/maintenance"
	popMaintenance  = "/api/v1/system/maintenance/pop"
)

// maintained is the answer about the modes.
type maintained struct {
	MaintenanceMode, PopMaintenanceMode, BufferHealthy bool
	BufferedMessages                                   int
	Stored                                             *bool
	Servers                                            []struct{ Server, Error string }
}

func modesAt(t *testing.T, c *cell.Cell, address, path string) (m maintained) {
	t.Helper()
	status, body := c.Do(t, address, http.MethodGet, path, "")
	if err := json.Unmarshal(body, &m); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s %v", status, body, err)
	}
	return m
}

func turn(t *testing.T, c *cell.Cell, address, path string, on bool) (m maintained) {
	t.Helper()
	status, body := c.Do(t, address, http.MethodPost, path, fmt.Sprintf(`{"enabled":%t}`, on))
	if err := json.Unmarshal(body, &m); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s %v", status, body, err)
	}
	return m
}

// bothModes waits until every ingest knows of push maintenance and every deliver of pop maintenance.
func bothModes(t *testing.T, c *cell.Cell, push, pop bool) {
	t.Helper()
	cell.Eventually(t, func() bool {
		known := true
		for _, address := range slices.Concat(c.Ingest, c.Deliver) {
			status, body := c.Do(t, address, http.MethodGet, "/api/v1/system/shared-state", "")
			known = known && status == http.StatusOK && strings.Contains(string(body), fmt.Sprintf(`"maintenance_mode":%t,"pop_maintenance_mode":%t`, push, pop))
		}
		for _, address := range c.Deliver {
			known = known && modesAt(t, c, address, popMaintenance).PopMaintenanceMode == pop
		}
		return known
	})
}

// segments is how many rows pushes have made.
func segments(t *testing.T, c *cell.Cell) (n int) {
	t.Helper()
	if err := connectTo(t, c.Stack.DSN()).QueryRow(t.Context(), `SELECT count(*) FROM queen.segments`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// With the mode on no row appears and files grow; off, all that was pushed arrives exactly once; a restart in between keeps
// the mode and what waits.
func TestPushMaintenanceHoldsEverythingBack(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{"mesh": nil, "no mesh": {"QUEEN_SYNC_ENABLED=false"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := world.Own(t, local.Options{Ingest: 2, Deliver: 1, Env: env})
			queue := cell.FreshQueue()
			c.Push(t, client.Item{Queue: queue, TransactionID: "before", Payload: []byte(`0`)})
			if m := turn(t, c, c.Edge, pushMaintenance, true); !m.MaintenanceMode || !m.BufferHealthy || len(m.Servers) != 2 {
				t.Errorf("%+v", m)
			}
			if name == "mesh" {
				bothModes(t, c, true, false)
			}
			cell.Eventually(t, func() bool { // the edge says what one says; each for itself
				return modesAt(t, c, c.Ingest[0], pushMaintenance).MaintenanceMode && modesAt(t, c, c.Ingest[1], pushMaintenance).MaintenanceMode
			})
			rows, announced := segments(t, c), map[string]string{}
			push := func(address, id string) {
				t.Helper()
				results, err := c.At(t, address).Push(t.Context(), []client.Item{{Queue: queue, Partition: "p", TransactionID: id, Payload: []byte(`1`)}})
				if err != nil || results[0].Status != client.Buffered {
					t.Fatalf("%+v %v", results, err)
				}
				announced[id] = results[0].MessageID
			}
			for n := range 20 {
				push(c.Ingest[n%2], fmt.Sprint("first-", n))
			}
			for number := range 2 {
				if err := c.Stack.Restart(t.Context(), local.Ingest, number+1); err != nil {
					t.Fatal(err)
				}
				push(c.Ingest[number], fmt.Sprint("after the start of ", number))
			}
			cell.Eventually(t, func() bool {
				m := modesAt(t, c, c.Edge, pushMaintenance)
				return m.MaintenanceMode && m.BufferedMessages == len(announced) && len(m.Servers) == 2
			})
			if now := segments(t, c); now != rows {
				t.Errorf("%d rows appeared", now-rows)
			}
			if batch := c.Pop(t, client.PopRequest{Queue: queue, Group: "g", Mode: "all", Batch: 100, Partitions: 10}); len(batch.Messages) != 1 {
				t.Errorf("delivered: %v", cell.Transactions(batch))
			}
			turn(t, c, c.Edge, pushMaintenance, false)
			awaitDrained(t, c, 2)
			found := storedIDs(t, c, queue)
			for id, message := range announced {
				if found[id] != message {
					t.Errorf("%s was announced as %s and is stored as %q", id, message, found[id])
				}
			}
			if len(found) != len(announced)+1 {
				t.Errorf("%d are stored, %d were announced", len(found), len(announced))
			}
		})
	}
}

// Turned on while the database is down, it is still on when that returns, also for who was killed meanwhile.
func TestPushMaintenanceOfAnOutageStays(t *testing.T) {
	t.Parallel()
	c := world.Own(t, local.Options{Ingest: 2, Deliver: 1})
	queue := cell.FreshQueue()
	c.Push(t, client.Item{Queue: queue, Payload: []byte(`0`)})
	if err := c.Stack.StopDatabase(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := turn(t, c, c.Ingest[0], pushMaintenance, true)
	if !m.MaintenanceMode || m.Stored == nil || *m.Stored {
		t.Errorf("%+v", m)
	}
	if err := c.Stack.Kill(local.Ingest, 1); err != nil {
		t.Fatal(err)
	}
	if err := c.Stack.StartDatabase(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Stack.Restart(t.Context(), local.Ingest, 1); err != nil {
		t.Fatal(err)
	}
	bothModes(t, c, true, false)
	conn := connectTo(t, c.Stack.DSN())
	cell.Eventually(t, func() bool {
		var stored bool
		err := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM queen.system_state WHERE key = 'maintenance_mode' AND value = '{"enabled":true}')`).Scan(&stored)
		return err == nil && stored
	})
	for _, address := range c.Ingest {
		results, err := c.At(t, address).Push(t.Context(), []client.Item{{Queue: queue, Payload: []byte(`1`)}})
		if err != nil || results[0].Status != client.Buffered || !modesAt(t, c, address, pushMaintenance).MaintenanceMode {
			t.Errorf("%+v %v", results, err)
		}
	}
	turn(t, c, c.Edge, pushMaintenance, false)
	awaitDrained(t, c, 2)
}

// On, every pop of every deliver is a 204 without a body at once, those that wait as well; acks go on.
func TestPopMaintenanceStopsEveryDeliver(t *testing.T) {
	t.Parallel()
	c := world.Own(t, local.Options{Ingest: 1, Deliver: 2})
	queue := cell.FreshQueue()
	c.PushNumbered(t, queue, 3)
	leased := c.Pop(t, client.PopRequest{Queue: queue, Group: "g", Mode: "all", Batch: 1})
	polls := make(chan string)
	for _, address := range c.Deliver {
		go func() {
			resp, err := http.Get(address + "/api/v1/pop/queue/" + queue + ".none?wait=true&timeout=300000")
			if err != nil {
				polls <- err.Error()
				return
			}
			polls <- fmt.Sprint(resp.StatusCode, resp.Body.Close())
		}()
	}
	c.AwaitParked(t, 2)
	if m := turn(t, c, c.Edge, popMaintenance, true); !m.PopMaintenanceMode || m.Stored != nil {
		t.Errorf("%+v", m)
	}
	for range c.Deliver {
		if got := <-polls; got != "204 <nil>" {
			t.Errorf("a poll that waited: %s", got)
		}
	}
	bothModes(t, c, false, true)
	for _, address := range slices.Concat(c.Deliver, []string{c.Edge}) {
		for _, path := range []string{"/queue/" + queue + "?consumerGroup=h&subscriptionMode=all", "/queue/" + queue + "/partition/Default?wait=true&timeout=300000", "?namespace=test"} {
			status, body, header := c.Send(t, address, http.MethodGet, "/api/v1/pop"+path, "", http.Header{})
			if _, told := header["Content-Length"]; status != http.StatusNoContent || len(body) > 0 || told {
				t.Errorf("%s at %s: %d %q", path, address, status, body)
			}
		}
	}
	c.AckAll(t, "g", leased)
	c.Push(t, client.Item{Queue: queue, Payload: []byte(`3`)})
	if err := c.Stack.Restart(t.Context(), local.Deliver, 1); err != nil {
		t.Fatal(err)
	}
	if status, body := c.Do(t, c.Deliver[0], http.MethodGet, "/api/v1/pop/queue/"+queue+"?consumerGroup=g", ""); status != http.StatusNoContent {
		t.Errorf("after a restart: %d %s", status, body)
	}
	turn(t, c, c.Edge, popMaintenance, false)
	bothModes(t, c, false, false)
	got := 0
	cell.Eventually(t, func() bool {
		batch := c.Pop(t, client.PopRequest{Queue: queue, Group: "g", Mode: "all", Batch: 10})
		got += len(batch.Messages)
		return got == 3
	})
}

// A database that was dumped with the mode on says so when it is restored, whatever the services knew last.
func TestARestoredDumpBringsItsModeBack(t *testing.T) {
	t.Parallel()
	c := world.Own(t, local.Options{Ingest: 1, Deliver: 1})
	turn(t, c, c.Edge, pushMaintenance, true)
	conn := connectTo(t, c.Stack.DSN())
	if _, err := conn.Exec(t.Context(), `CREATE TABLE dump AS TABLE queen.system_state`); err != nil {
		t.Fatal(err)
	}
	turn(t, c, c.Edge, pushMaintenance, false)
	for _, service := range []string{local.Ingest, local.Deliver} {
		if err := c.Stack.Terminate(t.Context(), service, 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Exec(t.Context(), `TRUNCATE queen.system_state; INSERT INTO queen.system_state SELECT * FROM dump`); err != nil {
		t.Fatal(err)
	}
	for _, service := range []string{local.Ingest, local.Deliver} {
		if err := c.Stack.Restart(t.Context(), service, 1); err != nil {
			t.Fatal(err)
		}
	}
	if m := modesAt(t, c, c.Ingest[0], pushMaintenance); !m.MaintenanceMode {
		t.Errorf("%+v", m)
	}
	results, err := c.At(t, c.Ingest[0]).Push(t.Context(), []client.Item{{Queue: cell.FreshQueue(), Payload: []byte(`1`)}})
	if err != nil || results[0].Status != client.Buffered {
		t.Errorf("%+v %v", results, err)
	}
}
