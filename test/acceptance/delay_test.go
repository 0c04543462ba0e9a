package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/client"
	"queen.internal/test/internal/cell"
)

var specialPushLines = []entry{
	{20, "delayed processing hides a message until it is old enough", delayedProcessing},
	{21, "window buffer delivers together what came together", windowBuffer},
	{22, "an encrypted queue gives clear payloads", encryptedQueue},
	{23, "the producer is the token's subject", producerIsTheTokensSubject},
	{24, "a buffer is invisible until it is flushed", bufferIsInvisibleUntilFlushed},
	{25, "ten thousand messages in order", tenThousandInOrder},
}

// hiddenFor are the two seconds of these options by our own clock, at least: ages are told by the database's.
const hiddenFor = 1900 * time.Millisecond

// hiddenSince wants nothing to be delivered yet, to a group of its own so that nothing is taken from others. Only a machine
// that was busy until after the time may see messages.
func (l *line) hiddenSince(queue string, pushed time.Time) {
	l.Helper()
	early := l.pop(client.PopRequest{Queue: queue, Group: "early", Mode: "all"})
	if age := time.Since(pushed); len(early.Messages) > 0 && age < hiddenFor {
		l.Errorf("delivered after %v", age)
	}
}

func delayedProcessing(l *line) {
	queue := cell.FreshQueue()
	l.configure(queue, `"delayedProcessing":2`)
	pushed := time.Now()
	l.store(numbered(queue, "", 0, 1)...)
	l.hiddenSince(queue, pushed)
	batch := l.await(client.PopRequest{Queue: queue})
	if age := time.Since(pushed); age < hiddenFor {
		l.Errorf("delivered after %v", age)
	}
	l.delivers(batch, "0")
}

func windowBuffer(l *line) {
	queue := cell.FreshQueue()
	l.configure(queue, `"windowBuffer":2`)
	pushed := time.Now()
	l.store(numbered(queue, "", 0, 1)...)
	l.store(numbered(queue, "", 1, 2)...)
	l.hiddenSince(queue, pushed)
	batch := l.await(client.PopRequest{Queue: queue, Batch: 4})
	if age := time.Since(pushed); age < hiddenFor {
		l.Errorf("delivered after %v", age)
	}
	l.delivers(batch, "0", "1", "2")
}

// encryptedQueue differs from the line where there is no key: nothing is stored in clear on a queue that asks for
// encryption, its configure is refused and its pushes fail.
func encryptedQueue(l *line) {
	queue := cell.FreshQueue()
	item := client.Item{Queue: queue, Payload: json.RawMessage(`{ "card" : "4111" }`)}
	if l.key {
		l.configure(queue, `"encryptionEnabled":true`)
		l.store(item)
		batch := l.pop(client.PopRequest{Queue: queue})
		if len(batch.Messages) != 1 || string(batch.Messages[0].Data) != string(item.Payload) {
			l.Errorf("%+v", batch)
		}
		return
	}
	status, answer := l.send(http.MethodPost, "/api/v1/configure", fmt.Sprintf(`{"queue":%q,"options":{"encryptionEnabled":true}}`, queue))
	if status != http.StatusBadRequest || !strings.Contains(answer, "encryptionEnabled needs a key") {
		l.Errorf("%d %s", status, answer)
	}
	// A queue that was configured while there was a key.
	l.configure(queue, ``)
	l.exec(`UPDATE queen.queues SET encryption_enabled = true WHERE name = $1`, queue)
	if results := l.push(item); results[0].Status != client.Failed || results[0].Error == "" {
		l.Errorf("%+v", results[0])
	}
	l.popsNothing(client.PopRequest{Queue: queue})
}

// exec changes the database behind the services' back.
func (l *line) exec(statement string, args ...any) {
	l.Helper()
	conn, err := pgx.Connect(l.Context(), l.cell.Stack.DSN())
	if err != nil {
		l.Fatal(err)
	}
	tag, err := conn.Exec(l.Context(), statement, args...)
	if err = errors.Join(err, conn.Close(context.WithoutCancel(l.Context()))); err != nil || tag.RowsAffected() == 0 {
		l.Fatalf("%v: %s", err, tag)
	}
}

func producerIsTheTokensSubject(l *line) {
	queue := cell.FreshQueue()
	var results []client.PushResult
	l.post("/api/v1/push", fmt.Sprintf(`{"items":[{"queue":%q,"payload":1,"producerSub":"mallory"}]}`, queue), http.StatusCreated, &results)
	batch := l.pop(client.PopRequest{Queue: queue})
	if len(batch.Messages) != 1 {
		l.Fatalf("%+v", batch)
	}
	var want *string // without authentication nobody knows who it was
	if l.subject != "" {
		want = &l.subject
	}
	l.same("producer", want, batch.Messages[0].ProducerSub)
}

// bufferIsInvisibleUntilFlushed: what a client holds back is no request. A flush is one push of what was gathered for a
// partition, so it makes visible exactly that.
func bufferIsInvisibleUntilFlushed(l *line) {
	queue, first, second := cell.FreshQueue(), "first", "second"
	l.configure(queue, ``)
	buffers := map[string][]client.Item{first: numbered(queue, first, 0, 100), second: numbered(queue, second, 100, 7)}
	popFirst, popSecond := client.PopRequest{Queue: queue, Partition: &first}, client.PopRequest{Queue: queue, Partition: &second}
	l.popsNothing(popFirst)
	l.popsNothing(popSecond)
	l.store(buffers[first]...)
	batch := l.pop(popFirst)
	l.delivers(batch, numbers(0, 100)...)
	l.complete("", batch)
	l.popsNothing(popSecond)
	l.popsNothing(client.PopRequest{Queue: queue})
	l.store(buffers[second]...)
	l.delivers(l.pop(popSecond), numbers(100, 7)...)
}

func tenThousandInOrder(l *line) {
	queue := cell.FreshQueue()
	for i := range 10 {
		l.store(numbered(queue, "", i*1000, 1000)...)
	}
	var got []string
	for len(got) < 10_000 {
		batch := l.await(client.PopRequest{Queue: queue, Batch: 1000})
		got = append(got, cell.Transactions(batch)...)
		l.carriedOut(l.ack("", client.Completed, batch.Messages[len(batch.Messages)-1]))
	}
	l.same("order", numbers(0, 10_000), got)
	l.popsNothing(client.PopRequest{Queue: queue})
}
