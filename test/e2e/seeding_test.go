package e2e

import (
	"syscall"
	"testing"

	"queen.internal/pkg/client"
	"queen.internal/pkg/testkit"
	"queen.internal/test/internal/cell"
)

// A group that skips the backlog is registered in pages. The deliver that began with it is killed after the second; another
// one goes on, and what is pushed after its answer is delivered.
func TestARegistrationOutlivesTheDeliverThatBeganIt(t *testing.T) {
	t.Parallel()
	c, queue := shared(t), cell.FreshQueue()
	c.PushNumbered(t, queue, 1)
	conn := direct(t)
	if _, err := conn.Exec(t.Context(), `INSERT INTO queen.partitions (queue_id, name, last_offset)
		SELECT id, 'p' || g, 0 FROM queen.queues, generate_series(1, 4000) g WHERE name = $1`, queue); err != nil {
		t.Fatal(err)
	}
	deliver := startSingle(t, "deliver")
	second := deliver.proxy.Nth(2, testkit.HoldAnswer, "queen.subscribe(")
	request := client.PopRequest{Queue: queue, Group: "g", Mode: "new"}
	ended := make(chan error, 1)
	go func() {
		_, err := c.At(t, deliver.url).Pop(t.Context(), request)
		ended <- err
	}()
	second.Await(t)
	deliver.signal(t, syscall.SIGKILL)
	if err := <-ended; err == nil {
		t.Error("the pop has an answer")
	}
	var seeded, of int
	if err := conn.QueryRow(t.Context(), `SELECT s.seeded, s.seeding_of FROM queen.subscriptions s JOIN queen.queues q ON q.id = s.queue_id WHERE q.name = $1`,
		queue).Scan(&seeded, &of); err != nil || seeded != 2000 || of != 4001 {
		t.Fatalf("%d of %d, %v", seeded, of, err)
	}
	if batch := c.Pop(t, request); len(batch.Messages) != 0 {
		t.Errorf("%+v", batch)
	}
	c.Push(t, client.Item{Queue: queue, TransactionID: "new", Payload: []byte(`1`)}, client.Item{Queue: queue, Partition: "p3999", TransactionID: "new, too", Payload: []byte(`1`)})
	request.Batch, request.Partitions = 10, 10
	if batch := c.Pop(t, request); len(batch.Messages) != 2 {
		t.Errorf("%+v", batch)
	}
}
