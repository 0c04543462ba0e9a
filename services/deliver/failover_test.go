package main

import (
	"net/http"
	"os"
	"testing"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgserver"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/store/log"
	"queen.internal/pkg/testkit"
)

// startServer starts a server whose data outlives it until the test ends.
func startServer(t *testing.T, folder string, port int) *pgserver.Server {
	t.Helper()
	server, err := pgserver.Start(t.Context(), pgserver.Options{Folder: folder, RemoveIfKilled: true, Port: port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case <-server.Done(): // it was killed
		default:
			_ = server.Kill() // of what is thrown away
		}
		if err := os.RemoveAll(server.Folder()); err != nil {
			t.Error(err)
		}
	})
	return server
}

func serverFolder(t *testing.T) string {
	t.Helper()
	folder, err := pgserver.TemporaryFolder()
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// A standby takes over that has not seen the last commits: an ack, a lease, a group and a queue. Deliver believes to know where
// there is work, and forgets it with the first connection to the new server.
func TestFailover_ToAServerWithoutTheLastCommits(t *testing.T) {
	t.Parallel()
	primary := startServer(t, serverFolder(t), 0)
	config := pg.Config{Host: "127.0.0.1", Port: primary.Port(), User: "postgres", Password: primary.Password(), Database: "postgres"}
	b := &bundle{t: t, database: pgtest.Database{Pool: testkit.Pool(t, config, "test", 2), DSN: primary.DSN("postgres"), Config: config}}
	b.appender = appendlog.New(log.New(b.database.Pool), nil)
	b.process = start(t, config, neverLook)
	testkit.Eventually(b.t, "the schema is there", func() bool {
		status, _, _, err := b.do(t.Context(), http.MethodGet, "/readyz", "")
		return err == nil && status == http.StatusOK
	})
	b.push("q", "acked", "1")
	b.push("q", "leased", "2")
	b.push("pinned", "p", "3")
	b.exec(`UPDATE queen.partitions SET last_created_at = now() - interval '1 hour'`) // no search for what is new finds them
	copied := serverFolder(t)
	if err := primary.Copy(t.Context(), copied); err != nil {
		t.Fatal(err)
	}

	const path = "/queue/q?consumerGroup=g&subscriptionMode=all&partitions=0&batch=10&leaseSeconds=3600"
	got := b.mustPop(http.StatusOK, path)
	if len(got.Messages) != 2 {
		t.Fatalf("%s", got.Raw)
	}
	b.mustAck("g", got.items("completed")[0])
	b.mustPop(http.StatusOK, "/queue/pinned/partition/p?consumerGroup=g&subscriptionMode=all&leaseSeconds=3600")
	b.push("lost", "p", "4")
	b.mustPop(http.StatusOK, "/queue/lost?consumerGroup=g&subscriptionMode=all&leaseSeconds=3600")
	b.mustPop(http.StatusNoContent, path)
	pinned := b.later("/queue/pinned/partition/p?consumerGroup=g&subscriptionMode=all&wait=true&timeout=60000")
	whole := b.later(path + "&wait=true&timeout=60000")
	b.parked(2)

	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	standby := startServer(t, copied, primary.Port())
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Whoever comes first connects to it, and learns of it.
	testkit.Eventually(b.t, "the queue of the lost timeline is gone", func() bool {
		answer, err := b.pop("/queue/lost?consumerGroup=g&subscriptionMode=all")
		return err == nil && answer.Status == http.StatusNoContent
	})
	if got := whole(); len(got.Messages) != 2 || got.Messages[0].DeliveryAttempt != 1 {
		t.Errorf("what was acked and leased on the lost timeline: %d %s", got.Status, got.Raw)
	}
	if got := pinned(); got.ids() != "3" {
		t.Errorf("a pinned poll: %d %s", got.Status, got.Raw)
	}
	b.mustPop(http.StatusNoContent, path)
}
