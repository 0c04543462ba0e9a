package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/seal"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/group"
	"queen.internal/pkg/store/log"
)

// push appends messages with these transaction ids in one segment; the payload of each is its id as JSON.
func (b *bench) push(queueName, partition string, ids ...string) log.Partition {
	b.Helper()
	g := appendlog.Group{Key: appendlog.Key{Tenant: queue.DefaultTenant, Queue: queueName, Partition: partition}}
	for _, id := range ids {
		g.Messages = append(g.Messages, segment.Message{ID: queue.NewID(), TransactionID: id, Payload: fmt.Appendf(nil, "%q", id)})
	}
	if err := appendlog.New(log.New(b.database.Pool), nil).Append(b.Context(), []appendlog.Group{g})[0].Err; err != nil {
		b.Fatal(err)
	}
	return b.partition(queueName, partition)
}

// claim leases the next messages of a partition for a group, which it registers, and returns how many.
func (b *bench) claim(queueName, groupName string, p log.Partition, batch int) int {
	b.Helper()
	store := group.New(b.database.Pool)
	subscription, err := store.Subscribe(b.Context(), queue.DefaultTenant, queueName, groupName, group.Start{Mode: "all"})
	if err != nil {
		b.Fatal(err)
	}
	claims, err := store.Claim(b.Context(), group.ClaimRequest{
		Subscription: subscription.Ref, Partitions: []int64{p.ID}, Lease: queue.NewID(), LeaseSeconds: 60, Batch: batch, MaxPartitions: 1,
		MaxBytes: 1 << 20, AtLeastOne: true,
	})
	if err != nil || len(claims.Claims) != 1 {
		b.Fatalf("claim: %v, %+v", err, claims)
	}
	return int(claims.Claims[0].Last - claims.Claims[0].First + 1)
}

// detail is the answer that shows a message.
type detail struct {
	ID, TransactionID, Partition, PartitionID, Queue, QueuePath, Namespace, Task, Status, CreatedAt string
	Data, Payload                                                                                   json.RawMessage
	ErrorMessage, LeaseExpiresAt                                                                    *string
	RetryCount                                                                                      *int
	IsEncrypted                                                                                     bool
	QueueConfig                                                                                     map[string]any
	Mode                                                                                            struct {
		HasQueueMode   bool
		BusGroupsCount int
		Type           string
	}
	ConsumerGroups []struct {
		Name, Group    string
		Consumed       bool
		LeaseExpiresAt *string
	}
}

func (b *bench) detail(p log.Partition, transactionID string) detail {
	b.Helper()
	var d detail
	body := b.must("/api/v1/messages/" + p.UID.String() + "/" + url.PathEscape(transactionID))
	if err := json.Unmarshal([]byte(body), &d); err != nil {
		b.Fatalf("%v in %s", err, body)
	}
	return d
}

func TestMessage_103_DetailOfAClaimedMessage(t *testing.T) {
	t.Parallel()
	b := setup(t, "")
	p := b.push("bills.send", "eu/1", "t 1/é", "t2")
	b.claim("bills.send", "mailer", p, 1)
	d := b.detail(p, "t 1/é")
	if d.TransactionID != "t 1/é" || d.PartitionID != p.UID.String() || d.Partition != "eu/1" || d.Queue != "bills.send" ||
		d.QueuePath != "bills.send/eu/1" || d.Namespace != "bills" || d.Task != "send" || d.Status != "processing" {
		t.Errorf("%+v", d)
	}
	if _, err := uuid.Parse(d.ID); err != nil || string(d.Data) != `"t 1/é"` || string(d.Payload) != string(d.Data) || d.IsEncrypted {
		t.Errorf("id %s, data %s, payload %s", d.ID, d.Data, d.Payload)
	}
	if _, err := time.Parse("2006-01-02T15:04:05.000Z", d.CreatedAt); err != nil || d.RetryCount == nil || *d.RetryCount != 0 || d.ErrorMessage != nil {
		t.Errorf("createdAt %s, retryCount %v, errorMessage %v", d.CreatedAt, d.RetryCount, d.ErrorMessage)
	}
	for key, want := range map[string]any{
		"leaseTime": 60.0, "retryLimit": 3.0, "retryDelay": 1000.0, "ttl": 3600.0, "priority": 0.0, "deliveryLimit": 0.0, "encryptionEnabled": false,
	} {
		if d.QueueConfig[key] != want {
			t.Errorf("queueConfig.%s is %v, want %v", key, d.QueueConfig[key], want)
		}
	}
	if len(d.ConsumerGroups) != 1 || d.ConsumerGroups[0].Name != "mailer" || d.ConsumerGroups[0].Group != "mailer" || d.ConsumerGroups[0].Consumed ||
		d.ConsumerGroups[0].LeaseExpiresAt == nil || d.LeaseExpiresAt == nil || *d.LeaseExpiresAt != *d.ConsumerGroups[0].LeaseExpiresAt {
		t.Errorf("groups %+v, lease %v", d.ConsumerGroups, d.LeaseExpiresAt)
	}
	if d.Mode.HasQueueMode || d.Mode.BusGroupsCount != 1 || d.Mode.Type != "bus" {
		t.Errorf("mode %+v", d.Mode)
	}
	if other := b.detail(p, "t2"); other.Status != "pending" || other.LeaseExpiresAt != nil {
		t.Errorf("what is not under the lease is %+v", other)
	}
}

func TestMessage_StatusFollowsTheGroups(t *testing.T) {
	t.Parallel()
	b := setup(t, "")
	p := b.push("q", "p", "a", "b")
	status := func(want string) {
		t.Helper()
		if d := b.detail(p, "a"); d.Status != want {
			t.Errorf("the status is %s, want %s", d.Status, want)
		}
	}
	status("pending")
	b.claim("q", queue.QueueMode, p, 1)
	status("processing")
	if d := b.detail(p, "a"); d.Mode.Type != "queue" || !d.Mode.HasQueueMode || len(d.ConsumerGroups) != 1 {
		t.Errorf("%+v", d)
	}
	b.exec(`UPDATE queen.cursors SET committed = 0, batch_end = NULL, lease_id = NULL, lease_expires_at = NULL`)
	status("completed")
	b.claim("q", "g", p, 2)
	b.claim("q", "h", p, 2)
	status("processing")
	b.exec(`UPDATE queen.cursors SET lease_expires_at = clock_timestamp() - interval '1 s' WHERE lease_id IS NOT NULL`)
	status("pending")
	b.exec(`UPDATE queen.cursors c SET committed = 1, batch_end = NULL, lease_id = NULL, lease_expires_at = NULL
		FROM queen.subscriptions s WHERE s.id = c.subscription_id AND s.group_name = 'g'`)
	status("pending")
	b.exec(`UPDATE queen.cursors SET committed = 1, batch_end = NULL, lease_id = NULL, lease_expires_at = NULL`)
	status("completed")
	b.file(p, "g", "a", failed, []byte(`"snapshot"`))
	status("dead_letter")
	if d := b.detail(p, "a"); *d.RetryCount != 2 || d.ErrorMessage == nil || *d.ErrorMessage != `it is "broken"` || string(d.Data) != `"a"` {
		t.Errorf("%+v", d)
	}
}

func TestMessage_IsFoundWithoutHashAndWithoutSegment(t *testing.T) {
	t.Parallel()
	b := setup(t, "")
	p := b.push("q", "p", "old", "older")
	b.push("q", "p", "x")
	b.exec(`DELETE FROM queen.dedup WHERE base_offset = 0`)
	for _, id := range []string{"old", "older", "x"} {
		if d := b.detail(p, id); d.TransactionID != id || string(d.Data) != `"`+id+`"` {
			t.Errorf("%s is %+v", id, d)
		}
	}
	b.exec(`DELETE FROM queen.segments WHERE base_offset = 0`)
	address := "/api/v1/messages/" + p.UID.String() + "/"
	if status, body := b.ask("", address+"old"); status != http.StatusNotFound || body != `{"error":"Message not found"}` {
		t.Errorf("without a segment: %d %s", status, body)
	}
	b.file(p, "g", "old", failed, []byte(`"snapshot"`))
	if d := b.detail(p, "old"); d.Status != "dead_letter" || string(d.Data) != `"snapshot"` || d.CreatedAt != "2026-01-01T12:00:00.123Z" {
		t.Errorf("by its snapshot: %+v", d)
	}
	b.exec(`UPDATE queen.segments SET payload = '\x00' WHERE base_offset = 2`)
	if status, body := b.ask("", address+"x"); status != http.StatusInternalServerError || body != `{"error":"frame decode failed"}` {
		t.Errorf("a damaged segment: %d %s", status, body)
	}
}

func TestMessage_NotFound(t *testing.T) {
	t.Parallel()
	b := setup(t, "")
	p := b.push("q", "p", "a")
	const stranger = "00000000-0000-0000-0000-000000000002"
	for _, test := range []struct{ tenant, partition, transaction string }{
		{"", p.UID.String(), "b"},
		{"", stranger, "a"},
		{"", "no uuid", "a"},
		{"", p.UID.String(), "a\x00"},
		{"", p.UID.String(), "\xff"},
		{"", p.UID.String(), "%zz"},
		{stranger, p.UID.String(), "a"},
	} {
		status, body := b.ask(test.tenant, "/api/v1/messages/"+url.PathEscape(test.partition)+"/"+url.PathEscape(test.transaction))
		if status != http.StatusNotFound || body != `{"error":"Message not found"}` {
			t.Errorf("%q is %d %s", test, status, body)
		}
	}
	b.exec(`UPDATE queen.queues SET deleted_at = clock_timestamp()`)
	if status, body := b.ask("", "/api/v1/messages/"+p.UID.String()+"/a"); status != http.StatusNotFound {
		t.Errorf("of a deleted queue: %d %s", status, body)
	}
}

func TestMessages_OpensWhatItsKeyOpens(t *testing.T) {
	t.Parallel()
	b := setup(t, someKey)
	keys, err := seal.NewKeys(someKey)
	if err != nil {
		t.Fatal(err)
	}
	key := appendlog.Key{Tenant: queue.DefaultTenant, Queue: "q", Partition: "p"}
	result := appendlog.New(log.New(b.database.Pool), nil).Append(t.Context(), []appendlog.Group{{Key: key, Messages: []segment.Message{
		{ID: queue.NewID(), TransactionID: "a", Payload: keys.Seal([]byte(`{ "n": 1.0 }`))},
	}}})
	if result[0].Err != nil {
		t.Fatal(result[0].Err)
	}
	p := b.partition("q", "p")
	if d := b.detail(p, "a"); string(d.Data) != `{ "n": 1.0 }` || d.IsEncrypted {
		t.Errorf("%+v", d)
	}
	if body := b.must("/api/v1/messages"); !strings.Contains(body, `"data":{ "n": 1.0 },"payload":{ "n": 1.0 },`) {
		t.Errorf("%s", body)
	}
}

// listed is the answer of a listing.
type listed struct {
	Messages []struct {
		ID, TransactionID, Data              *string
		TxnHash, Queue, Partition, QueuePath string
		Status, QueueStatus, CreatedAt       string
		PayloadAvailable                     bool
		BusStatus                            struct{ ConsumedBy, TotalGroups int }
		Segment                              struct{ Seq, FrameIdx int }
	}
	Mode struct {
		HasQueueMode   bool
		BusGroupsCount int
		Type           string
	}
	Total     int
	Truncated bool
}

func (b *bench) list(query string) listed {
	b.Helper()
	var l listed
	body := b.must("/api/v1/messages" + query)
	if err := json.Unmarshal([]byte(body), &l); err != nil {
		b.Fatalf("%v in %s", err, body)
	}
	return l
}

func (l *listed) ids() string {
	var ids []string
	for _, m := range l.Messages {
		if m.TransactionID == nil {
			ids = append(ids, "?")
			continue
		}
		ids = append(ids, *m.TransactionID)
	}
	if l.Truncated {
		ids = append(ids, "+")
	}
	return strings.Join(ids, " ")
}

func TestMessages_ListedNewestFirst(t *testing.T) {
	t.Parallel()
	b := setup(t, "")
	if got, want := b.must("/api/v1/messages"), `{"messages":[],"mode":{"hasQueueMode":false,"busGroupsCount":0,"type":"none"},"total":0,"truncated":false}`; got != want {
		t.Errorf("without any: %s", got)
	}
	p := b.push("a.x", "one", "1", "2")
	b.push("b.x", "one", "3")
	b.push("a.x", "two", "4")
	b.push("a.x", "one", "5")
	b.push("old", "one", "0")
	b.exec(`WITH d AS (UPDATE queen.dedup SET created_at = created_at - interval '2 h' WHERE partition_id = (SELECT max(id) FROM queen.partitions))
		UPDATE queen.partitions SET last_created_at = last_created_at - interval '2 h' WHERE id = (SELECT max(id) FROM queen.partitions)`)
	b.claim("a.x", "g", p, 1)
	b.claim("b.x", queue.QueueMode, b.partition("b.x", "one"), 1)
	b.exec(`UPDATE queen.cursors SET committed = batch_end, batch_end = NULL, lease_id = NULL, lease_expires_at = NULL
		WHERE partition_id <> $1`, p.ID)
	b.file(b.partition("a.x", "two"), "g", "4", time.Now(), []byte(`4`))

	for query, want := range map[string]string{
		"":                                       "5 4 3 2 1",
		"?limit=2":                               "5 4 +",
		"?limit=2&offset=2":                      "3 2 +",
		"?limit=2&offset=4":                      "1",
		"?limit=0":                               "+",
		"?offset=5":                              "",
		"?queue=a.x":                             "5 4 2 1",
		"?queue=a.x&partition=two":               "4",
		"?partition=one":                         "5 3 2 1",
		"?namespace=b":                           "3",
		"?ns=a":                                  "5 4 2 1",
		"?task=x&ns=a":                           "5 4 2 1",
		"?queue=a.x&ns=b":                        "",
		"?queue=none":                            "",
		"?status=dead_letter":                    "4",
		"?status=processing":                     "1",
		"?status=completed":                      "3",
		"?status=pending":                        "5 2",
		"?status=pending&limit=1&offset=1":       "2",
		"?status=pending&limit=1":                "5 +",
		"?from=2001-01-01":                       "5 4 3 2 1 0",
		"?from=2001-01-01&to=2001-01-02":         "",
		"?from=2100-01-01":                       "",
		"?consumerGroup=whoever&from=&to=&ns=":   "5 4 3 2 1",
		"?from=2001-01-01&queue=old&limit=10000": "",
	} {
		if strings.Contains(query, "10000") {
			if status, body := b.ask("", "/api/v1/messages"+query); status != http.StatusBadRequest || !strings.Contains(body, "limit") {
				t.Errorf("%s is %d %s", query, status, body)
			}
			continue
		}
		got := b.list(query)
		if got.ids() != want || got.Total != len(got.Messages) {
			t.Errorf("%s lists %q, total %d, want %q", query, got.ids(), got.Total, want)
		}
	}
	twoHoursAgo := time.Now().Add(-2 * time.Hour).UTC().Format("2006-01-02T15:04:05Z")
	if got := b.list("?from=2001-01-01&to=" + twoHoursAgo); got.ids() != "0" {
		t.Errorf("until two hours ago: %s", got.ids())
	}
	if got := b.list(""); got.Mode.Type != "hybrid" || !got.Mode.HasQueueMode || got.Mode.BusGroupsCount != 1 {
		t.Errorf("mode %+v", got.Mode)
	}
	if status, body := b.ask("00000000-0000-0000-0000-000000000002", "/api/v1/messages?queue=a.x"); status != http.StatusOK || !strings.Contains(body, `"total":0`) {
		t.Errorf("another tenant gets %d %s", status, body)
	}
	for query, field := range map[string]string{"status=failed": "status", "limit=x": "limit", "offset=-1": "offset", "from=then": "from", "to=x": "to", "queue=%01": "queue"} {
		if status, body := b.ask("", "/api/v1/messages?"+query); status != http.StatusBadRequest || !strings.HasPrefix(body, `{"error":"`+field) {
			t.Errorf("%s is %d %s", query, status, body)
		}
	}
}

func TestMessages_ListedToTheByte(t *testing.T) {
	t.Parallel()
	b := setup(t, "")
	p := b.push("bills.send", "eu", "t1", "t2")
	b.claim("bills.send", "g", p, 1)
	d := b.detail(p, "t2")
	hash := queue.TransactionHash("t2")
	want := fmt.Sprintf(`{"messages":[{"id":"%s","transactionId":"t2","txnHash":"%x","partitionId":"%s","partition":"eu","queue":"bills.send","queuePath":"bills.send/eu",`+
		`"namespace":"bills","task":"send","status":"pending","queueStatus":"pending","busStatus":{"consumedBy":0,"totalGroups":1},"queuePriority":0,`+
		`"payloadAvailable":true,"segment":{"seq":0,"frameIdx":1},"leaseExpiresAt":null,"data":"t2","payload":"t2","traceId":null,"producerSub":null,`+
		`"createdAt":"%s","isEncrypted":false}],"mode":{"hasQueueMode":false,"busGroupsCount":1,"type":"bus"},"total":1,"truncated":true}`,
		d.ID, hash[:], p.UID, d.CreatedAt)
	if diff := cmp.Diff(want, b.must("/api/v1/messages?limit=1")); diff != "" {
		t.Error(diff)
	}
	b.exec(`DELETE FROM queen.segments`)
	got := b.list("")
	if got.ids() != "? ?" || got.Messages[0].PayloadAvailable || got.Messages[0].Data != nil || got.Messages[0].ID != nil || got.Messages[0].CreatedAt != d.CreatedAt {
		t.Errorf("without their segment: %+v", got)
	}
	b.exec(`DELETE FROM queen.dedup`)
	if got := b.list(""); got.Total != 0 {
		t.Errorf("without their hashes: %+v", got)
	}
}

// Whatever the sizes of partitions, segments and pages, all pages together are the list.
func TestMessages_PagesOverManyPartitions(t *testing.T) {
	t.Parallel()
	b := setup(t, "")
	const partitions, rounds = 40, 3 // more partitions than one statement looks at
	var want []string
	for round := range rounds {
		for p := range partitions {
			ids := []string{fmt.Sprint(round, ".", p, ".a"), fmt.Sprint(round, ".", p, ".b")}
			if (round+p)%3 == 0 {
				ids = ids[:1]
			}
			b.push("q", fmt.Sprint("p", p), ids...)
			for _, id := range ids {
				want = append([]string{id}, want...)
			}
		}
	}
	if got := b.list("?limit=1000"); got.ids() != strings.Join(want, " ") {
		t.Errorf("lists %s\nwant  %s", got.ids(), strings.Join(want, " "))
	}
	for _, limit := range []int{7, 50, 199} {
		var got []string
		for offset := 0; ; offset += limit {
			page := b.list(fmt.Sprintf("?limit=%d&offset=%d", limit, offset))
			got = append(got, strings.TrimSuffix(page.ids(), " +"))
			if !page.Truncated {
				break
			}
		}
		if text := strings.Join(got, " "); text != strings.Join(want, " ") {
			t.Errorf("in pages of %d: %s", limit, text)
		}
	}
}
