package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// call asks for a path below /api/v1 and wants exactly this answer.
func (b *bundle) call(method, path, body string, status int, want string) {
	b.t.Helper()
	got, _, answer, err := b.do(context.Background(), method, "/api/v1"+path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	if got != status || string(answer) != want {
		b.t.Errorf("%s %s %s answers %d %s\nwant %d %s", method, path, body, got, answer, status, want)
	}
}

func (b *bundle) post(path, body string, status int, want string) {
	b.t.Helper()
	b.call(http.MethodPost, path, body, status, want)
}

// seek seeks in queue q and wants so many partitions.
func (b *bundle) seek(group, body string, partitions int) {
	b.t.Helper()
	status, _, answer, err := b.do(context.Background(), http.MethodPost, "/api/v1/consumer-groups/"+group+"/queues/q/seek", body)
	if err != nil {
		b.t.Fatal(err)
	}
	if want := fmt.Sprintf(`"partitionsUpdated":%d}`, partitions); status != http.StatusOK || !strings.HasSuffix(string(answer), want) {
		b.t.Errorf("seek %s answers %d %s, want %s", body, status, answer, want)
	}
}

// drained pops and acks until there is nothing left, and returns how many messages that were.
func (b *bundle) drained(path, group string) (n int) {
	b.t.Helper()
	for {
		got, err := b.pop(path)
		if err != nil {
			b.t.Fatal(err)
		}
		if got.Status == http.StatusNoContent {
			return n
		}
		n += len(got.Messages)
		b.mustAck(group, got.items("completed")...)
	}
}

// Acceptance 57.
func TestSeek_BackwardsMakesEverythingConsumableAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	before := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	for i := range 10 {
		b.push("q", fmt.Sprint("p", i), fmt.Sprint("m", i))
	}
	const path = "/queue/q?consumerGroup=g&subscriptionMode=all&partitions=0"
	if n := b.drained(path, "g"); n != 10 {
		t.Fatalf("%d messages at first", n)
	}
	b.mustPop(http.StatusNoContent, path)
	b.seek("g", `{"timestamp":"`+before+`"}`, 10)
	if n := b.drained(path, "g"); n != 10 {
		t.Errorf("%d messages after the seek", n)
	}
}

// Acceptance 56.
func TestDeleteGroup_TheNextPopIsAFirstContact(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p1", "a", "b")
	b.push("q", "p2", "c")
	const path = "/queue/q?consumerGroup=g&subscriptionMode=all&partitions=0"
	b.drained(path, "g")
	for range 3 {
		b.mustPop(http.StatusNoContent, path) // the queue has long been found empty
	}
	b.call(http.MethodDelete, "/consumer-groups/g", "", http.StatusOK,
		`{"success":true,"consumerGroup":"g","deletedPartitions":2,"metadataDeleted":true}`)
	b.call(http.MethodDelete, "/consumer-groups/g", "", http.StatusOK,
		`{"success":true,"consumerGroup":"g","deletedPartitions":0,"metadataDeleted":true}`)
	if n := b.drained(path, "g"); n != 3 {
		t.Errorf("%d messages after the deletion", n)
	}
	b.call(http.MethodDelete, "/consumer-groups/g/queues/q?deleteMetadata=true", "", http.StatusOK,
		`{"success":true,"consumerGroup":"g","queueName":"q","deletedPartitions":2,"metadataDeleted":true}`)
	b.mustPop(http.StatusNoContent, "/queue/q?consumerGroup=g") // a group that is new skips the backlog
}

func TestDeleteGroup_WithoutMetadataStartsOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a", "b")
	b.mustPop(http.StatusNoContent, "/queue/q?consumerGroup=g&subscriptionMode=new")
	b.mustPop(http.StatusNoContent, "/queue/q/partition/p?consumerGroup=pinned")
	for _, group := range []string{"g", "pinned"} {
		b.call(http.MethodDelete, "/consumer-groups/"+group+"/queues/q?deleteMetadata=false", "", http.StatusOK,
			`{"success":true,"consumerGroup":"`+group+`","queueName":"q","deletedPartitions":1,"metadataDeleted":false}`)
	}
	if got := b.mustPop(http.StatusOK, "/queue/q?consumerGroup=g&subscriptionMode=new"); got.ids() != "a b" {
		t.Errorf("got %s", got.ids())
	}
	if got := b.mustPop(http.StatusOK, "/queue/q/partition/p?consumerGroup=pinned"); got.ids() != "a b" {
		t.Errorf("got %s by partition", got.ids())
	}
}

func TestDeleteGroup_ALeaseUnderTheOldIdentityIsDead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a", "b")
	old := b.mustPop(http.StatusOK, "/queue/q?consumerGroup=g&subscriptionMode=all")
	b.call(http.MethodDelete, "/consumer-groups/g", "", http.StatusOK,
		`{"success":true,"consumerGroup":"g","deletedPartitions":1,"metadataDeleted":true}`)
	again := b.mustPop(http.StatusOK, "/queue/q?consumerGroup=g&subscriptionMode=all")
	if again.ids() != "a b" {
		t.Fatalf("got %s", again.ids())
	}
	results, err := b.ack("g", old.items("completed")...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Success {
			t.Errorf("an ack of the deleted group: %+v", r)
		}
	}
	_, _, answer, err := b.do(context.Background(), http.MethodPost, "/api/v1/lease/"+old.LeaseID+"/extend", "")
	if err != nil || !strings.Contains(string(answer), `"success":false`) {
		t.Errorf("extend answers %s, %v", answer, err)
	}
	b.mustAck("g", again.items("completed")...)
}

func TestSeek_AnswersToTheLetter(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "eu", "a")
	b.push("q/x", "p/y", "a")
	b.exec(`INSERT INTO queen.queues (tenant, name, namespace, task) VALUES ('00000000-0000-0000-0000-000000000001', 'bare', '', '')`)
	const g = "/consumer-groups/mailer/queues/"
	b.post(g+"q/seek", `{"timestamp":"2026-08-01T02:00:00+02:00"}`, 200,
		`{"success":true,"consumerGroup":"mailer","queueName":"q","seekToEnd":false,"targetTimestamp":"2026-08-01T00:00:00.000Z","partitionsUpdated":1}`)
	b.post(g+"q/seek", `{"timestamp":"2026-08-01T00:00:00","toEnd":true,"more":[]}`, 200,
		`{"success":true,"consumerGroup":"mailer","queueName":"q","seekToEnd":true,"targetTimestamp":null,"partitionsUpdated":1}`)
	b.post(g+"q/partitions/eu/seek", "", 200,
		`{"success":true,"consumerGroup":"mailer","queueName":"q","partitionName":"eu","seekToEnd":true,"targetTimestamp":null,"updated":true}`)
	b.post(g+"q/partitions/eu/seek", `{"timestamp":"2026-08-01"}`, 200,
		`{"success":true,"consumerGroup":"mailer","queueName":"q","partitionName":"eu","seekToEnd":false,"targetTimestamp":"2026-08-01T00:00:00.000Z","updated":true}`)
	b.post("/consumer-groups/"+url.PathEscape("a/b c")+"/queues/q%2Fx/partitions/p%2Fy/seek", `{"toEnd":true}`, 200,
		`{"success":true,"consumerGroup":"a/b c","queueName":"q/x","partitionName":"p/y","seekToEnd":true,"targetTimestamp":null,"updated":true}`)
	for _, name := range []string{"none", "bare"} {
		b.post(g+name+"/seek", `{"toEnd":true}`, 404,
			`{"success":false,"error":"Queue not found or has no partitions","consumerGroup":"mailer","queueName":"`+name+`","partitionsUpdated":0}`)
		b.post(g+name+"/partitions/eu/seek", "", 404, `{"success":false,"error":"Partition not found"}`)
	}
	b.post(g+"q/partitions/none/seek", "", 404, `{"success":false,"error":"Partition not found"}`)
	const must = `{"error":"Must specify toEnd=true or a timestamp"}`
	for _, route := range []string{"q/seek", "q/partitions/eu/seek"} {
		for body, want := range map[string]string{
			`{}`: must, `{"toEnd":false}`: must, `{"toEnd":null,"timestamp":null}`: must, `{"timestamp":""}`: must,
			`null`:                  `{"error":"bad body: it must be an object"}`,
			`[]`:                    `{"error":"bad body: it must be an object"}`,
			`{"toEnd":"true"}`:      `{"error":"bad body: toEnd must be true or false"}`,
			`{"timestamp":1}`:       `{"error":"bad body: timestamp must be text"}`,
			`{"timestamp":"later"}`: `{"error":"timestamp must be an ISO 8601 time such as 2026-08-01T00:00:00Z"}`,
		} {
			b.post(g+route, body, 400, want)
		}
	}
	status, _, answer, err := b.do(context.Background(), http.MethodPost, "/api/v1"+g+"q/seek", "")
	if err != nil || status != 400 || !strings.HasPrefix(string(answer), `{"error":"bad body: `) {
		t.Errorf("a queue's seek without a body answers %d %s, %v", status, answer, err)
	}
}

func TestSubscription_ChangesNoPosition(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a")
	b.push("other", "p", "a")
	b.mustPop(http.StatusNoContent, "/queue/q?consumerGroup=new&subscriptionMode=new")
	const path = "/queue/q?consumerGroup=all&subscriptionMode=all"
	b.push("q", "begun", "b")
	b.mustPop(http.StatusOK, "/queue/q/partition/begun?consumerGroup=pinned&subscriptionMode=all")
	b.exec(`SELECT * FROM queen.subscribe('00000000-0000-0000-0000-000000000001', 'q', 'all', 'all', NULL)`)
	b.exec(`SELECT * FROM queen.subscribe('00000000-0000-0000-0000-000000000001', 'other', 'all', 'all', NULL)`)
	for group, rows := range map[string]int{"all": 2, "new": 1, "pinned": 0, "none": 0} {
		for _, at := range []string{"2001-01-01T00:00:00Z", "2999-12-31T23:59:59+01:00"} {
			b.post("/consumer-groups/"+group+"/subscription", `{"subscriptionTimestamp":"`+at+`"}`, 200,
				fmt.Sprintf(`{"success":true,"consumerGroup":"%s","newTimestamp":"%s","rowsUpdated":%d}`, group, at, rows))
		}
	}
	for _, body := range []string{`{}`, `{"subscriptionTimestamp":""}`, `{"subscriptionTimestamp":null}`} {
		b.post("/consumer-groups/all/subscription", body, 400, `{"error":"subscriptionTimestamp is required"}`)
	}
	b.post("/consumer-groups/all/subscription", `{"subscriptionTimestamp":"now"}`, 400,
		`{"error":"subscriptionTimestamp must be an ISO 8601 time such as 2026-08-01T00:00:00Z"}`)
	if n := b.drained(path, "all"); n != 2 {
		t.Errorf("a group that reads everything has got %d messages", n)
	}
	b.push("q", "later", "c")
	if n := b.drained(path, "all"); n != 1 {
		t.Errorf("%d messages of a partition created after the change", n)
	}
	if n := b.drained("/queue/q?consumerGroup=new&partitions=0", "new"); n != 2 { // begun and later
		t.Errorf("a group that began after the backlog has got %d messages", n)
	}
}

func TestDepth(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "us", "a", "b", "c")
	b.push("q", "eu", "a", "b")
	const path, zero = "/resources/queues/q/depth", `"conflation":false,`
	b.call(http.MethodGet, "/resources/queues/none/depth", "", 404, `{"error":"Queue not found"}`)
	b.call(http.MethodGet, path, "", 200, `{"queue":"q","group":null,"pending":5,"partitions":[`+
		`{"partition":"eu","pending":2,"processing":0,"ready":2},{"partition":"us","pending":3,"processing":0,"ready":3}],`+
		`"partitionsPending":2,`+zero+`"effectivePending":5,"processing":0,"ready":5,"partitionsReady":2,"effectiveReady":5,"truncated":false}`)
	held := b.mustPop(http.StatusOK, "/queue/q/partition/us?consumerGroup=g&subscriptionMode=all&batch=2")
	b.call(http.MethodGet, path+"?group=g&limit=1", "", 200, `{"queue":"q","group":"g","pending":5,"partitions":[`+
		`{"partition":"us","pending":3,"processing":2,"ready":1}],`+
		`"partitionsPending":2,`+zero+`"effectivePending":5,"processing":2,"ready":3,"partitionsReady":2,"effectiveReady":3,"truncated":true}`)
	b.mustAck("g", held.items("completed")...)
	b.mustPop(http.StatusOK, "/queue/q/partition/eu?autoAck=true") // without a group
	// In us the named group counts, in eu, which it has not touched, those without a group.
	b.call(http.MethodGet, path+"?limit=0&group=", "", 200, `{"queue":"q","group":null,"pending":1,"partitions":[],`+
		`"partitionsPending":1,`+zero+`"effectivePending":1,"processing":0,"ready":1,"partitionsReady":1,"effectiveReady":1,"truncated":true}`)
	b.call(http.MethodGet, path+"?limit=-1", "", 400, `{"error":"limit must be an integer between 0 and 10000"}`)
	b.call(http.MethodDelete, "/consumer-groups/g?deleteMetadata=maybe", "", 400, `{"error":"deleteMetadata must be true or false"}`)
}
