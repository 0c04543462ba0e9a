package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/queue"
)

func TestPopAndAck_OneAfterTheOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("orders", "p", "a", "b", "c")
	first := b.mustPop(http.StatusOK, "/queue/orders?batch=2")
	if first.ids() != "a b" || !first.Success || first.Queue != "orders" || first.Partition != "p" || first.PartitionsClaimed != 1 {
		t.Errorf("first pop: %s", first.Raw)
	}
	m := first.Messages[0]
	if m.ID == "" || m.PartitionID != first.PartitionID || m.LeaseID != first.LeaseID || m.LeaseID == "" || m.TraceID != nil ||
		m.ConsumerGroup != "__QUEUE_MODE__" || string(m.Data) != `"a"` || m.DeliveryAttempt != 1 {
		t.Errorf("first message: %+v", m)
	}
	if got := first.Header.Get("X-Queen-Lease"); got != first.LeaseID {
		t.Errorf("lease header %q", got)
	}
	if got := b.mustPop(http.StatusNoContent, "/queue/orders"); got.Raw != "" || got.Header.Get("Content-Length") != "" {
		t.Errorf("204 carries %q, %v", got.Raw, got.Header)
	}
	for _, r := range b.mustAck("", first.items("completed")...) {
		if !r.LeaseReleased || r.Noop {
			t.Errorf("ack: %+v", r)
		}
	}
	second := b.mustPop(http.StatusOK, "/queue/orders")
	if second.ids() != "c" {
		t.Errorf("second pop: %s", second.Raw)
	}
	b.mustAck("", second.items("")...)
	b.mustPop(http.StatusNoContent, "/queue/orders")
}

func TestPop_PayloadsSurviveToTheByte(t *testing.T) {
	t.Parallel()
	b := setup(t)
	payloads := [][]byte{
		[]byte(`{"b":12345678901234567890.10, "a":1e400,"b":2}`),
		[]byte(`"\u0000\ud800\/<&>\u00e9é"`),
		[]byte(`[ 1 , 2 ]`),
		[]byte(`"` + strings.Repeat("x", 1<<20) + `"`),
		[]byte("null"),
		{},
	}
	ids := []string{"0", "1", "2", "3", "4", "5"}
	b.pushPayloads("q", "p", ids, payloads)
	got := b.mustPop(http.StatusOK, "/queue/q?batch=10&autoAck=true")
	if len(got.Messages) != len(payloads) {
		t.Fatalf("%d messages", len(got.Messages))
	}
	for i, m := range got.Messages {
		want := string(payloads[i])
		if want == "" {
			want = "null"
		}
		if string(m.Data) != want {
			t.Errorf("payload %d is %.100s", i, m.Data)
		}
	}
	if !strings.Contains(got.Raw, `"data":[ 1 , 2 ],"producerSub":null`) {
		t.Error("a payload was written anew")
	}
}

func TestPop_CutsTheBorderSegments(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var want []string
	for i := range 5 { // five segments of three
		var ids []string
		for j := range 3 {
			ids = append(ids, fmt.Sprint(3*i+j))
		}
		b.push("q", "p", ids...)
		want = append(want, ids...)
	}
	var got []string
	for len(got) < len(want) {
		p := b.mustPop(http.StatusOK, "/queue/q?batch=4")
		for _, m := range p.Messages {
			got = append(got, m.TransactionID)
		}
		b.mustAck("", p.items("ok")...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPop_NamesMayHoldAnything(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, name := range []string{"a/b", "50%", "a+b", "a b", "é日本", "a%2Fb", "..", "?x=1&y", "#"} {
		b.push(name, name, "id of "+name)
		for _, path := range []string{inQueue(name) + "?consumerGroup=one&subscriptionMode=all", inQueue(name) + "/partition" + inQueue(name)[len("/queue"):] + "?consumerGroup=two&subscriptionMode=all"} {
			got := b.mustPop(http.StatusOK, path)
			if got.Queue != name || got.Partition != name || got.ids() != "id of "+name {
				t.Errorf("%s: %s", path, got.Raw)
			}
		}
	}
}

func TestPop_BudgetsOfMessagesAndPartitions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, queueName := range []string{"one", "three", "ten", "all"} {
		for i := range 5 {
			partition := fmt.Sprint("p", i)
			b.push(queueName, partition, partition+"a", partition+"b")
		}
	}
	tests := []struct {
		path                 string
		messages, partitions int
	}{
		{"/queue/one?batch=100", 2, 1},
		{"/queue/three?batch=100&partitions=3", 6, 3},
		{"/queue/ten?batch=3&partitions=5", 3, 2},
		{"/queue/all?batch=100&partitions=0", 10, 5},
	}
	for _, test := range tests {
		got := b.mustPop(http.StatusOK, test.path)
		leases, partitions := map[string]bool{}, map[string]bool{}
		for _, m := range got.Messages {
			leases[m.LeaseID], partitions[m.PartitionID] = true, true
		}
		if len(got.Messages) != test.messages || got.PartitionsClaimed != test.partitions || len(partitions) != test.partitions || len(leases) != 1 {
			t.Errorf("%s: %d messages of %d partitions (%d claimed) under %d leases", test.path, len(got.Messages), len(partitions), got.PartitionsClaimed, len(leases))
		}
		b.mustAck("", got.items("completed")...)
	}
}

func TestPop_BytesAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	large := []byte(`"` + strings.Repeat("x", 3<<20) + `"`)
	huge := []byte(`"` + strings.Repeat("y", 20<<20) + `"`)
	b.pushPayloads("q", "p", []string{"huge"}, [][]byte{huge})
	for i := range 8 {
		b.pushPayloads("q", "p", []string{fmt.Sprint(i)}, [][]byte{large})
	}
	first := b.mustPop(http.StatusOK, "/queue/q")
	if first.ids() != "huge" {
		t.Errorf("the first pop has %s", first.ids())
	}
	b.mustAck("", first.items("ok")...)
	second := b.mustPop(http.StatusOK, "/queue/q")
	if second.ids() != "0 1 2 3 4" {
		t.Errorf("the second pop has %s", second.ids())
	}
}

func TestPop_AutoAckLeasesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a", "b", "c")
	first := b.mustPop(http.StatusOK, "/queue/q?autoAck=true&batch=2")
	if first.ids() != "a b" || first.LeaseID != "" || first.Messages[0].LeaseID != "" || first.Messages[0].DeliveryAttempt != 1 || first.Header.Get("X-Queen-Lease") != "" {
		t.Errorf("%s", first.Raw)
	}
	if second := b.mustPop(http.StatusOK, "/queue/q?autoAck=true&batch=2"); second.ids() != "c" {
		t.Errorf("%s", second.Raw)
	}
	b.mustPop(http.StatusNoContent, "/queue/q?autoAck=true")
}

func TestPop_NewGroupsSkipTheBacklogAndNothingElse(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "old", "a")
	b.mustPop(http.StatusNoContent, "/queue/q?consumerGroup=new")
	b.mustPop(http.StatusNoContent, "/queue/q?consumerGroup=now&subscriptionFrom=now&subscriptionMode=all")
	b.push("q", "old", "b")
	b.push("q", "young", "c")
	for _, group := range []string{"new", "now"} {
		got := b.mustPop(http.StatusOK, "/queue/q?partitions=0&consumerGroup="+group)
		if got.ids() != "b c" {
			t.Errorf("group %s has %s", group, got.ids())
		}
	}
	for _, path := range []string{
		"/queue/q?partitions=0&consumerGroup=all&subscriptionMode=from_beginning", "/queue/q?partitions=0&subscriptionMode=new",
		"/queue/q?partitions=0&consumerGroup=from&subscriptionFrom=2001-01-01T00:00:00Z",
	} {
		if got := b.mustPop(http.StatusOK, path); got.ids() != "a b c" {
			t.Errorf("%s has %s", path, got.ids())
		}
	}
}

func TestPop_UnknownQueue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	queues := func() (n int) {
		if err := b.database.Pool.QueryRow(context.Background(), "SELECT count(*) FROM queen.queues").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	b.mustPop(http.StatusNoContent, "/queue/q/partition/p")
	if queues() != 0 {
		t.Error("a pinned pop created a queue")
	}
	b.mustPop(http.StatusNoContent, "/queue/q?consumerGroup=g")
	if queues() != 1 {
		t.Error("the group's subscription was not recorded")
	}
	b.mustPop(http.StatusNoContent, "/queue/q/partition/p")
}

func TestPop_BadRequests(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tests := map[string]string{
		"/queue/q?batch=x":                 `{"error":"batch: \"x\" is not an integer between -2147483648 and 2147483647"}`,
		"/queue/q?wait=1":                  `{"error":"wait: \"1\" is neither true nor false"}`,
		"/queue/q/partition/p?timeout=-1":  `{"error":"timeout: \"-1\" is not a number of milliseconds of at least 0"}`,
		"/queue/a%00b":                     `{"error":"queue contains a control character"}`,
		"/queue/q?consumerGroup=%1f":       `{"error":"consumerGroup contains a control character"}`,
		"":                                 `{"success":false,"error":"namespace or task is required","messages":[]}`,
		"?namespace=&consumerGroup=g":      `{"success":false,"error":"namespace or task is required","messages":[]}`,
		"?namespace=n&leaseSeconds=second": `{"error":"leaseSeconds: \"second\" is not an integer between -2147483648 and 2147483647"}`,
	}
	for path, want := range tests {
		if got := b.mustPop(http.StatusBadRequest, path); got.Raw != want {
			t.Errorf("%s answers %s", path, got.Raw)
		}
	}
}

func TestPop_DiscoversByNamespaceAndTask(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("orders.created", "p", "a")
	b.push("orders.paid", "p", "b")
	b.push("mail.created", "p", "c")
	for path, want := range map[string]int{
		"?namespace=orders&batch=10&partitions=0&consumerGroup=1&subscriptionMode=all":              2,
		"?task=created&batch=10&partitions=0&consumerGroup=2&subscriptionMode=all":                  2,
		"?namespace=orders&task=paid&batch=10&partitions=0&consumerGroup=3&subscriptionMode=all":    1,
		"?namespace=orders&batch=10&consumerGroup=4&subscriptionMode=all":                           1,
		"?namespace=orders&batch=1&partitions=0&consumerGroup=5&subscriptionMode=all":               1,
		"?namespace=orders&autoAck=true&batch=10&partitions=0&consumerGroup=6&subscriptionMode=all": 2,
	} {
		got := b.mustPop(http.StatusOK, path)
		leases := map[string]bool{}
		for _, m := range got.Messages {
			leases[m.LeaseID] = true
		}
		if len(got.Messages) != want || len(leases) != 1 || got.Queue != "" {
			t.Errorf("%s: %s", path, got.Raw)
		}
	}
	b.mustPop(http.StatusNoContent, "?namespace=nothing")
}

// A pop that is full has not come to all queues of the namespace; the group begins there all the same.
func TestPop_OfANamespaceIsAContactWithEachOfItsQueues(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 12 { // where a pop begins is random
		group, one, two := fmt.Sprint("g", i), fmt.Sprint("n", i, ".one"), fmt.Sprint("n", i, ".two")
		b.push(two, "p", "backlog")
		b.mustPop(http.StatusNoContent, inQueue(one)+"?consumerGroup="+group)
		b.push(one, "p", "first")
		path := fmt.Sprint("?namespace=n", i, "&autoAck=true&consumerGroup=", group)
		if got := b.mustPop(http.StatusOK, path); got.ids() != "first" {
			t.Fatalf("%s", got.Raw)
		}
		b.push(two, "p", "second")
		if got := b.mustPop(http.StatusOK, path); got.ids() != "second" {
			t.Errorf("%s", got.Raw)
		}
	}
}

func TestPop_DelayHidesUntilItsTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a")
	b.exec("UPDATE queen.queues SET delayed_processing_seconds = 3600")
	b.mustPop(http.StatusNoContent, "/queue/q")
	b.mustPop(http.StatusNoContent, "/queue/q")
	b.exec("UPDATE queen.queues SET delayed_processing_seconds = 0")
	if got := b.mustPop(http.StatusOK, "/queue/q"); got.ids() != "a" {
		t.Errorf("%s", got.Raw)
	}
}

func TestPop_FindsWhatWasPushedBefore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 60 {
		id := fmt.Sprint(i)
		b.push("q", fmt.Sprint("p", i%7), id)
		got := b.mustPop(http.StatusOK, "/queue/q")
		if got.ids() != id {
			t.Fatalf("after push %s the pop has %s", id, got.ids())
		}
		if i%3 == 0 {
			b.mustAck("", got.items("retry")...)
			got = b.mustPop(http.StatusOK, "/queue/q")
		}
		b.mustAck("", got.items("ok")...)
	}
}

func TestPop_FollowsAQueueThatIsDeletedAndMadeAnew(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a")
	b.mustPop(http.StatusOK, "/queue/q?consumerGroup=g&subscriptionMode=all")
	b.exec("UPDATE queen.queues SET deleted_at = now()")
	b.mustPop(http.StatusNoContent, "/queue/q?consumerGroup=g&subscriptionMode=all")
	b.push("q", "p", "b")
	if got := b.mustPop(http.StatusOK, "/queue/q?consumerGroup=g&subscriptionMode=all"); got.ids() != "b" {
		t.Errorf("%s", got.Raw)
	}
	b.mustPop(http.StatusOK, "/queue/q/partition/p?consumerGroup=pinned&subscriptionMode=all")
}

func TestLease_ExpiresAndGivesTheSameSpanAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a", "b", "c")
	first := b.mustPop(http.StatusOK, "/queue/q?batch=2&leaseSeconds=1")
	second := b.mustPop(http.StatusOK, "/queue/q?batch=2&leaseSeconds=1&wait=true&timeout=60000") // parked until the expiry
	if second.ids() != "a b" || second.LeaseID == first.LeaseID || second.Messages[0].DeliveryAttempt != 2 {
		t.Errorf("after the expiry: %s", second.Raw)
	}
	results, err := b.ack("", first.items("completed")...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Success || r.Error == nil || *r.Error != "invalid or expired lease" || r.LeaseReleased {
			t.Errorf("the ack of the expired lease: %+v", r)
		}
	}
	b.mustAck("", second.items("completed")...)
	if third := b.mustPop(http.StatusOK, "/queue/q"); third.ids() != "c" {
		t.Errorf("%s", third.Raw)
	}
}

func TestLease_ExtendKeepsIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p1", "a")
	b.push("q", "p2", "b")
	got := b.mustPop(http.StatusOK, "/queue/q?partitions=0&leaseSeconds=5")
	other := start(t, b.database.Config, func(*settings) {}) // does not know the lease: it searches
	for _, p := range []*process{b.process, other} {
		status, _, body, err := p.do(context.Background(), http.MethodPost, "/api/v1/lease/"+got.LeaseID+"/extend", `{"seconds":3600}`)
		if err != nil || status != http.StatusOK || !strings.HasPrefix(string(body), `{"leaseId":"`+got.LeaseID+`","success":true,"renewed":2,"newExpiresAt":"2`) {
			t.Errorf("%d %s %v", status, body, err)
		}
	}
	var left time.Duration
	if err := b.database.Pool.QueryRow(context.Background(), "SELECT min(lease_expires_at) - clock_timestamp() FROM queen.cursors").Scan(&left); err != nil {
		t.Fatal(err)
	}
	if left < 30*time.Minute {
		t.Errorf("the lease ends in %s", left)
	}
	for _, lease := range []string{queue.NewID().String(), "nonsense", "a%2Fb"} {
		status, _, body, err := b.do(context.Background(), http.MethodPost, "/api/v1/lease/"+lease+"/extend", "nonsense")
		want := fmt.Sprintf(`{"leaseId":%q,"success":false,"renewed":0,"newExpiresAt":null,"expiresAt":null,"lease_expires_at":null}`, strings.ReplaceAll(lease, "%2F", "/"))
		if err != nil || status != http.StatusOK || string(body) != want {
			t.Errorf("%d %s %v", status, body, err)
		}
	}
}

func TestAck_BodiesAndErrors(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a", "b", "c")
	got := b.mustPop(http.StatusOK, "/queue/q?consumerGroup=g&subscriptionMode=all")
	m := got.Messages[0]
	post := func(path, body string) (int, string) {
		status, _, answer, err := b.do(context.Background(), http.MethodPost, "/api/v1/ack"+path, body)
		if err != nil {
			t.Fatal(err)
		}
		return status, string(answer)
	}
	unresolvable := `"unresolvable: transaction not in the ack window (hash purged or never pushed); if leased, the message redelivers"`
	none := `,"leaseReleased":false,"dlq":false,"noop":false}`
	tests := []struct {
		path, body string
		status     int
		want       string
	}{
		{"", `nope`, 400, `{"error":"bad body: found 'o' where null should be (byte 1)"}`},
		{"", `{"transactionId":7}`, 400, `{"error":"bad body: transactionId is not a string"}`},
		{"/batch", `{}`, 200, `[]`},
		{"/batch", `{"acknowledgments":null}`, 200, `[]`},
		{"", `{"transactionId":"a","partitionId":"x"}`, 200, `[{"index":0,"transactionId":"a","success":false,"error":"invalid partitionId: \"x\" is not a UUID"` + none + `]`},
		{"", `{"transactionId":"a","partitionId":"` + queue.NewID().String() + `"}`, 200, `[{"index":0,"transactionId":"a","success":false,"error":"consumer not found"` + none + `]`},
		{"", `{"transactionId":"a","partitionId":"` + m.PartitionID + `","consumerGroup":"h"}`, 200, `[{"index":0,"transactionId":"a","success":false,"error":"consumer not found"` + none + `]`},
		{"", `{"transactionId":"a","partitionId":"` + m.PartitionID + `","leaseId":"x","consumerGroup":"g"}`, 200, `[{"index":0,"transactionId":"a","success":false,"error":"invalid or expired lease"` + none + `]`},
		{"", `{"transactionId":"never","partitionId":"` + m.PartitionID + `","leaseId":"` + m.LeaseID + `","consumerGroup":"g"}`, 200, `[{"index":0,"transactionId":"never","success":false,"error":` + unresolvable + none + `]`},
		{"", `{"partitionId":"` + m.PartitionID + `","consumerGroup":"g"}`, 200, `[{"index":0,"transactionId":"","success":false,"error":` + unresolvable + none + `]`},
		{"", `{"transactionId":"b","partitionId":"` + m.PartitionID + `","leaseId":"` + m.LeaseID + `","consumerGroup":"g","error":null}`, 200, `[{"index":0,"transactionId":"b","success":true,"error":null` + none + `]`},
		{"", `{"transactionId":"a","partitionId":"` + m.PartitionID + `","leaseId":"` + m.LeaseID + `","consumerGroup":"g"}`, 200, `[{"index":0,"transactionId":"a","success":true,"error":null,"leaseReleased":false,"dlq":false,"noop":true}]`},
		{"", `{"transactionId":"a","partitionId":"` + m.PartitionID + `","leaseId":"` + m.LeaseID + `","consumerGroup":"g","status":"failed"}`, 200, `[{"index":0,"transactionId":"a","success":false,"error":"already committed: the cursor moved past this message before this ack"` + none + `]`},
		{
			"/batch", `{"consumerGroup":"g","acknowledgments":[{"transactionId":"x","partitionId":"x"},{"transactionId":"c","partitionId":"` + m.PartitionID + `","leaseId":"` + m.LeaseID + `","status":"dlq","error":"zero \u0000 byte"}]}`, 200,
			`[{"index":0,"transactionId":"x","success":false,"error":"invalid partitionId: \"x\" is not a UUID"` + none + `,{"index":1,"transactionId":"c","success":true,"error":null,"leaseReleased":true,"dlq":true,"noop":false}]`,
		},
	}
	for _, test := range tests {
		if status, answer := post(test.path, test.body); status != test.status || answer != test.want {
			t.Errorf("%s %s answers %d %s\nwant %s", test.path, test.body, status, answer, test.want)
		}
	}
	var reason, payload string
	if err := b.database.Pool.QueryRow(context.Background(), "SELECT error, convert_from(payload, 'UTF8') FROM queen.dlq").Scan(&reason, &payload); err != nil {
		t.Fatal(err)
	}
	if reason != "zero \uFFFD byte" || payload != `"c"` {
		t.Errorf("the dead letter has %q, %q", reason, payload)
	}
}

func TestAck_FailuresDeadLetterAfterTheLimit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push("q", "p", "a", "b")
	b.exec("UPDATE queen.queues SET retry_limit = 1")
	for attempt := 1; attempt <= 2; attempt++ {
		got := b.mustPop(http.StatusOK, "/queue/q?batch=1")
		if got.ids() != "a" || got.Messages[0].DeliveryAttempt != attempt {
			t.Fatalf("attempt %d: %s", attempt, got.Raw)
		}
		if r := b.mustAck("", got.items("failed")...); r[0].LeaseReleased != true {
			t.Errorf("%+v", r)
		}
	}
	if got := b.mustPop(http.StatusOK, "/queue/q?batch=1"); got.ids() != "b" || got.Messages[0].DeliveryAttempt != 1 {
		t.Errorf("after the dead letter: %s", got.Raw)
	}
}
