package acceptance

import (
	"fmt"
	"net/http"

	"queen.internal/pkg/client"
	"queen.internal/pkg/route"
	"queen.internal/test/internal/cell"
)

var maintenanceLines = []entry{
	{100, "push maintenance holds messages back and loses none", heldBack},
}

func heldBack(l *line) {
	const partitions, each = 4, 10
	queue := cell.FreshQueue()
	pop := client.PopRequest{Queue: queue, Batch: 100, Partitions: partitions}
	l.pushNumbers(queue, partitions, each, client.Queued)
	seen := map[string]int{}
	l.countAll(pop, seen, partitions*each)
	for _, on := range []bool{true, false} {
		var turned struct{ MaintenanceMode bool }
		l.post("/api/v1/system/maintenance", fmt.Sprintf(`{"enabled":%t}`, on), http.StatusOK, &turned)
		l.same("the answer", on, turned.MaintenanceMode)
		for _, address := range l.addresses(route.Ingest) { // asking makes it look
			status, body := l.cell.Do(l.T, address, http.MethodGet, "/api/v1/system/maintenance", "")
			l.read(status, string(body), http.StatusOK, &turned)
			l.same("what "+address+" knows", on, turned.MaintenanceMode)
		}
		if on {
			l.pushNumbers(queue, partitions, each, client.Buffered)
			l.popsNothing(pop)
		}
	}
	l.countAll(pop, seen, 2*partitions*each)
	l.popsNothing(pop)
	for id, times := range seen {
		if times != 1 {
			l.Errorf("%s came %d times", id, times)
		}
	}
}

// pushNumbers pushes to each partition, every message to the next address.
func (l *line) pushNumbers(queue string, partitions, each int, want client.Status) {
	l.Helper()
	for n := range partitions * each {
		item := client.Item{Queue: queue, Partition: fmt.Sprint("p", n%partitions), TransactionID: fmt.Sprint(want, " ", n), Payload: fmt.Append(nil, n)}
		results := insist(l, func() ([]client.PushResult, error) { return l.at(route.Ingest).Push(l.Context(), []client.Item{item}) })
		if len(results) != 1 || results[0].Status != want {
			l.Fatalf("%+v, want %s", results, want)
		}
	}
}

// countAll pops and completes until so many messages were seen.
func (l *line) countAll(r client.PopRequest, seen map[string]int, total int) {
	l.Helper()
	for len(seen) < total {
		batch := l.await(r)
		for _, m := range batch.Messages {
			seen[m.TransactionID]++
		}
		l.complete("", batch)
	}
}
