package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/client"
	"queen.internal/pkg/route"
	"queen.internal/test/internal/cell"
)

// line is one line of the contract on its way through one cell. Each of its requests goes to the next address of the
// role, so what follows one another does so across processes.
type line struct {
	*testing.T
	*suite
	tenant string // of what send, post and get send; empty: none is named
	turn   atomic.Uint64
}

// address is where the next request for the role goes.
func (l *line) address(role route.Role) string {
	addresses := l.addresses(role)
	return addresses[l.turn.Add(1)%uint64(len(addresses))]
}

// at is a client of the next address of the role.
func (l *line) at(role route.Role) *client.Client { return l.clients[l.address(role)] }

// send sends one request as it is written, to the role that owns the path.
func (l *line) send(method, path, body string) (int, string) {
	l.Helper()
	for attempt := 1; ; attempt++ {
		status, answer, _ := l.cell.Send(l.T, l.address(owner(method, path)), method, path, body, l.header())
		if status != http.StatusServiceUnavailable || attempt == attempts {
			return status, string(answer)
		}
		l.passes(time.Second)
	}
}

// attempts is how often a request is made that is answered 503. A service that does not get a connection within a second,
// because the machine is busy with other tests, has done nothing and says so; clients come again, and so do lines.
const attempts = 10

// insist makes a call until it is answered with something else than 503.
func insist[T any](l *line, call func() (T, error)) T {
	l.Helper()
	for attempt := 1; ; attempt++ {
		answer, err := call()
		var refused *client.Error
		switch {
		case err == nil:
			return answer
		case errors.As(err, &refused) && refused.Status == http.StatusServiceUnavailable && attempt < attempts:
			l.passes(time.Second)
		default:
			l.Fatal(err)
		}
	}
}

// owner is the role that serves a path.
func owner(method, path string) route.Role {
	rawPath, _, _ := strings.Cut(path, "?")
	return route.Classify(method, rawPath).Row.Role
}

// header is what each request says of who sends it.
func (l *line) header() http.Header {
	header := http.Header{}
	if l.token != "" {
		header.Set("Authorization", "Bearer "+l.token)
	}
	if l.tenant != "" {
		header.Set("X-Queen-Tenant", l.tenant)
	}
	return header
}

// post sends a body and reads the answer, which must have the status, into out.
func (l *line) post(path, body string, status int, out any) {
	l.Helper()
	got, answer := l.send(http.MethodPost, path, body)
	l.read(got, answer, status, out)
}

// get reads the answer, which must be 200, into out.
func (l *line) get(path string, out any) {
	l.Helper()
	got, answer := l.send(http.MethodGet, path, "")
	l.read(got, answer, http.StatusOK, out)
}

func (l *line) read(got int, answer string, status int, out any) {
	l.Helper()
	if got != status {
		l.Fatalf("status %d, want %d: %.500s", got, status, answer)
	}
	if err := json.Unmarshal([]byte(answer), out); err != nil {
		l.Fatalf("%v: %.500s", err, answer)
	}
}

// configure sets options, written as the members of a JSON object.
func (l *line) configure(queue, options string) {
	l.Helper()
	var answer cell.Settings
	l.post("/api/v1/configure", fmt.Sprintf(`{"queue":%q,"options":{%s}}`, queue, options), http.StatusOK, &answer)
	if !answer.Configured {
		l.Fatalf("%+v", answer)
	}
}

// push pushes in one request.
func (l *line) push(items ...client.Item) []client.PushResult {
	l.Helper()
	return insist(l, func() ([]client.PushResult, error) { return l.at(route.Ingest).Push(l.Context(), items) })
}

// store is push of what must be queued.
func (l *line) store(items ...client.Item) []client.PushResult {
	l.Helper()
	results := l.push(items...)
	for _, r := range results {
		if r.Status != client.Queued {
			l.Fatalf("%+v", r)
		}
	}
	return results
}

// numbers are the transaction ids of numbered: those from first on.
func numbers(first, count int) []string {
	ids := make([]string, count)
	for i := range ids {
		ids[i] = fmt.Sprint(first + i)
	}
	return ids
}

// numbered are messages whose transaction ids and payloads are the numbers from first on.
func numbered(queue, partition string, first, count int) []client.Item {
	items := make([]client.Item, count)
	for i, id := range numbers(first, count) {
		items[i] = client.Item{Queue: queue, Partition: partition, TransactionID: id, Payload: json.RawMessage(id)}
	}
	return items
}

// pop pops once.
func (l *line) pop(r client.PopRequest) client.Batch {
	l.Helper()
	return insist(l, func() (client.Batch, error) { return l.at(route.Deliver).Pop(l.Context(), r) })
}

// popsNothing pops once at each address and wants nothing.
func (l *line) popsNothing(r client.PopRequest) {
	l.Helper()
	for range l.addresses(route.Deliver) {
		l.delivers(l.pop(r))
	}
}

// staysEmpty waits for d and wants nothing to be delivered meanwhile.
func (l *line) staysEmpty(r client.PopRequest, d time.Duration) {
	l.Helper()
	r.Wait = d
	l.delivers(l.pop(r))
}

// patience is how long a line waits for what must come. Nothing is slower for it.
const patience = time.Minute

// await pops until something comes.
func (l *line) await(r client.PopRequest) client.Batch {
	l.Helper()
	r.Wait = patience
	batch := l.pop(r)
	if len(batch.Messages) == 0 {
		l.Fatalf("nothing came for %+v", r)
	}
	return batch
}

// ack sends one status for some messages in one call.
func (l *line) ack(group, status string, messages ...client.Message) []client.AckResult {
	l.Helper()
	acks := make([]client.Acknowledgment, len(messages))
	for i, m := range messages {
		acks[i] = client.AckOf(m, status)
	}
	return l.ackAll(group, acks...)
}

// ackAll sends acknowledgments in one call.
func (l *line) ackAll(group string, acks ...client.Acknowledgment) []client.AckResult {
	l.Helper()
	return insist(l, func() ([]client.AckResult, error) { return l.at(route.Deliver).AckBatch(l.Context(), group, acks) })
}

// ackOne sends a single acknowledgment by the route for one.
func (l *line) ackOne(group string, a client.Acknowledgment) client.AckResult {
	l.Helper()
	return insist(l, func() (client.AckResult, error) { return l.at(route.Deliver).Ack(l.Context(), group, a) })
}

// carriedOut wants every instruction carried out, and tells whether any message became a dead letter.
func (l *line) carriedOut(results []client.AckResult) (dead bool) {
	l.Helper()
	for _, r := range results {
		if !r.Success || r.Error != nil {
			l.Errorf("%s", said(r))
		}
		dead = dead || r.DeadLettered
	}
	return dead
}

// refused wants a result that failed for a reason which contains the text.
func (l *line) refused(r client.AckResult, text string) {
	l.Helper()
	if r.Success || r.Error == nil || !strings.Contains(*r.Error, text) || r.LeaseReleased || r.DeadLettered {
		l.Errorf("%s, want a failure that says %q", said(r), text)
	}
}

// said is a result with its error readable.
func said(r client.AckResult) string {
	text := "null"
	if r.Error != nil {
		text = *r.Error
	}
	return fmt.Sprintf("%+v, error: %s", r, text)
}

// complete completes a batch in one call.
func (l *line) complete(group string, batch client.Batch) {
	l.Helper()
	l.carriedOut(l.ack(group, client.Completed, batch.Messages...))
}

// same wants two values to be equal.
func (l *line) same(what string, want, got any) {
	l.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		l.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// delivers wants exactly these transaction ids in this order.
func (l *line) delivers(batch client.Batch, want ...string) {
	l.Helper()
	if got := cell.Transactions(batch); !slices.Equal(want, got) {
		l.Errorf("delivered %.300q, want %.300q", got, want)
	}
}

// inTime calls act with a lease that act takes and that must live until act has ended. A machine that was too busy for that
// is given another chance with a longer lease, so what act saw is to be judged after inTime.
func (l *line) inTime(act func(lease time.Duration)) (lease time.Duration) {
	l.Helper()
	for lease = time.Second; ; lease *= 2 {
		began := time.Now()
		act(lease)
		if time.Since(began) < lease*9/10 {
			return lease
		}
	}
}

// passes waits until the time has passed on the clock: of lines whose subject that is.
func (l *line) passes(d time.Duration) {
	l.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.Context().Done():
		l.Fatal(l.Context().Err())
	}
}
