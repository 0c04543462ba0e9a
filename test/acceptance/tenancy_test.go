package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"queen.internal/pkg/client"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/route"
	"queen.internal/test/internal/cell"
)

// crossing is two tenants of one cell who use the same names.
type crossing struct {
	*testing.T
	mine, theirs *line
	queue, group string // that no other crossing has
}

// tenancyCases cross two tenants on one route each, by the name of its row. Nobody may see, take, acknowledge, extend,
// release, change or count as a duplicate anything of the other's, and an id of the other's answers like one that does
// not exist.
var tenancyCases = map[string]func(*crossing){
	"push":          crossPush,
	"configure":     crossConfigure,
	"pop_queue":     func(x *crossing) { x.pops("/api/v1/pop/queue/" + x.queue) },
	"pop_partition": func(x *crossing) { x.pops("/api/v1/pop/queue/" + x.queue + "/partition/p") },
	"pop_discover":  func(x *crossing) { x.pops("/api/v1/pop?namespace=" + x.queue) },
	"ack":           func(x *crossing) { x.acks("/api/v1/ack", `%s`) },
	"ack_batch": func(x *crossing) {
		x.acks("/api/v1/ack/batch", `{"consumerGroup":"`+x.group+`","acknowledgments":[%s]}`)
	},
	"lease_extend":  func(x *crossing) { x.leases(http.MethodPost, "/api/v1/lease/%s/extend") },
	"lease_release": func(x *crossing) { x.leases(http.MethodPost, "/internal/api/lease/%s/release") },

	"transaction": crossTransaction,

	"queue_delete":   crossQueueDelete,
	"retention":      crossRetention,
	"dlq_list":       crossDeadLetterList,
	"dlq_purge":      crossDeadLetterPurge,
	"message_delete": crossMessageDelete,
	"message_retry":  func(x *crossing) { x.revives("/api/v1/messages/%s/k/retry", x.partitionOf) },
	"dlq_replay":     func(x *crossing) { x.revives("/api/v1/dlq/%s/replay", x.letterOf) },
	"message_list":   crossMessageList,
	"message_get":    crossMessageGet,

	"lease_end":            func(x *crossing) { x.leases(http.MethodDelete, "/api/v1/leases/%s") },
	"leases":               crossLeaseList,
	"notify":               crossNotify,
	"queue_pause":          func(x *crossing) { x.pauses("/api/v1/resources/queues/%s") },
	"queue_resume":         func(x *crossing) { x.pauses("/api/v1/resources/queues/%s") },
	"group_pause":          func(x *crossing) { x.pauses("/api/v1/consumer-groups/" + x.group + "/queues/%s") },
	"group_resume":         func(x *crossing) { x.pauses("/api/v1/consumer-groups/" + x.group + "/queues/%s") },
	"queue_depth":          crossDepth,
	"group_delete":         func(x *crossing) { x.groupDeletes("/api/v1/consumer-groups/" + x.group) },
	"group_delete_queue":   func(x *crossing) { x.groupDeletes("/api/v1/consumer-groups/" + x.group + "/queues/" + x.queue) },
	"group_subscription":   crossSubscription,
	"group_seek":           func(x *crossing) { x.seeks("/queues/%s/seek") },
	"group_seek_partition": func(x *crossing) { x.seeks("/queues/%s/partitions/p/seek") },
}

func TestTenancy(t *testing.T) {
	t.Parallel()
	s := double(t)
	for name, pair := range map[string][2]string{
		"two tenants":               {uuid.NewString(), uuid.NewString()},
		"nobody and a tenant":       {"", uuid.NewString()},
		"a tenant and nobody":       {uuid.NewString(), ""},
		"a tenant and the default":  {uuid.NewString(), queue.DefaultTenant.String()},
		"capitals and small letter": {strings.ToUpper(uuid.NewString()), uuid.NewString()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for row, cross := range tenancyCases {
				t.Run(row, func(t *testing.T) {
					t.Parallel()
					cross(&crossing{
						T: t, mine: &line{T: t, suite: s, tenant: pair[0]}, theirs: &line{T: t, suite: s, tenant: pair[1]},
						queue: plainName(), group: plainName(),
					})
				})
			}
		})
	}
}

// plainName is a name that nobody else has and that is its own namespace.
func plainName() string { return strings.ReplaceAll(cell.FreshQueue(), ".", "-") }

func TestEveryRouteOfTenantsHasATenancyCase(t *testing.T) {
	t.Parallel()
	rows := map[string]bool{}
	for _, row := range route.Table {
		rows[row.Name] = row.Tenant
		if row.Tenant && tenancyCases[row.Name] == nil {
			t.Errorf("%s %s belongs to tenants and no case crosses two of them", row.Method, row.Path)
		}
	}
	for name := range tenancyCases {
		if !rows[name] {
			t.Errorf("no route %s belongs to tenants", name)
		}
	}
}

func TestMalformedTenantIsRefused(t *testing.T) {
	t.Parallel()
	s := double(t)
	const want = `{"error":"invalid x-queen-tenant header (must be a UUID)"}`
	id := uuid.NewString()
	for _, row := range route.Table {
		t.Run(row.Name, func(t *testing.T) {
			t.Parallel()
			path := samplePath(row, id)
			for _, bad := range []string{"nobody", "7", id[1:], "{" + id + "}", "urn:uuid:" + id, strings.ReplaceAll(id, "-", ""), id + "," + id} {
				l := &line{T: t, suite: s, tenant: bad}
				for range l.addresses(row.Role) {
					status, answer := l.send(row.Method, path, `{}`)
					if refused := status == http.StatusBadRequest && answer == want; refused != row.Tenant {
						t.Errorf("%q: %d %.300s", bad, status, answer)
					}
				}
			}
		})
	}
}

// samplePath is the path of a row with something in place of its parameters.
func samplePath(row route.Row, id string) string {
	segments := strings.Split(row.Path, "/")
	for i, s := range segments {
		if strings.HasPrefix(s, ":") {
			segments[i] = id
		}
	}
	return strings.Join(segments, "/")
}

func TestNoTenantIsTheDefaultTenant(t *testing.T) {
	t.Parallel()
	s := double(t)
	silent := &line{T: t, suite: s}
	named := &line{T: t, suite: s, tenant: queue.DefaultTenant.String()}
	name := cell.FreshQueue()
	id := silent.pushFor(name, "k")[0].MessageID
	named.duplicates(id, named.pushFor(name, "k"))
	named.delivers(named.popFor("/api/v1/pop/queue/"+name), "k")
	silent.delivers(silent.popFor("/api/v1/pop/queue/" + name)) // leased
}

// pushFor pushes one message as the line's tenant, to the partition p.
func (l *line) pushFor(queue, transaction string) []client.PushResult {
	l.Helper()
	var results []client.PushResult
	l.post("/api/v1/push", fmt.Sprintf(`{"items":[{"queue":%q,"partition":"p","transactionId":%q,"payload":1}]}`, queue, transaction),
		http.StatusCreated, &results)
	return results
}

// popFor pops as the line's tenant.
func (l *line) popFor(path string) client.Batch {
	l.Helper()
	var batch client.Batch
	status, answer := l.send(http.MethodGet, path, "")
	if status != http.StatusNoContent {
		l.read(status, answer, http.StatusOK, &batch)
	}
	return batch
}

// pop pops for the group.
func (x *crossing) pop(l *line) client.Batch {
	x.Helper()
	return l.popFor("/api/v1/pop/queue/" + x.queue + "?subscriptionMode=all&consumerGroup=" + x.group)
}

// leased pushes and pops one message of mine in the queue.
func (x *crossing) leased() client.Message {
	x.Helper()
	x.mine.pushFor(x.queue, "k")
	batch := x.pop(x.mine)
	x.mine.delivers(batch, "k")
	return batch.Messages[0]
}

// ack is an acknowledgment by the group, as JSON.
func (x *crossing) ack(a client.Acknowledgment) string {
	x.Helper()
	text, err := json.Marshal(struct {
		client.Acknowledgment
		Group string `json:"consumerGroup"`
	}{a, x.group})
	if err != nil {
		x.Fatal(err)
	}
	return string(text)
}

// stillMine wants my lease on the message to be untouched: nobody else got it, and my ack ends it.
func (x *crossing) stillMine(m client.Message) {
	x.Helper()
	x.mine.delivers(x.pop(x.mine))
	x.completes(x.mine, m)
}

// completes wants a tenant's ack of its message to end its lease.
func (x *crossing) completes(l *line, m client.Message) {
	x.Helper()
	var results []client.AckResult
	l.post("/api/v1/ack", x.ack(client.AckOf(m, client.Completed)), http.StatusOK, &results)
	if len(results) != 1 || !results[0].Success || !results[0].LeaseReleased || results[0].Noop {
		x.Errorf("the ack of the owner: %+v", results)
	}
}

// callID is what the answer to a transaction has of its own.
var callID = regexp.MustCompile(`^{"transactionId":"[-0-9a-f]{36}",`)

// likeUnknown wants theirs to be told the same of an id of mine as of one that nobody has.
func (x *crossing) likeUnknown(id string, ask func(l *line, id string) (int, string)) {
	x.Helper()
	invented := uuid.NewString()
	answer := func(id string) string {
		status, text := ask(x.theirs, id)
		return fmt.Sprint(status, " ", strings.ReplaceAll(callID.ReplaceAllString(text, ""), id, "ID"))
	}
	if foreign, unknown := answer(id), answer(invented); foreign != unknown {
		x.Errorf("of mine they are told\n%s\nof an unknown one\n%s", foreign, unknown)
	}
}

func crossPush(x *crossing) {
	mine := x.mine.pushFor(x.queue, "k")[0]
	theirs := x.theirs.pushFor(x.queue, "k")[0]
	if mine.Status != client.Queued || theirs.Status != client.Queued || mine.MessageID == theirs.MessageID {
		x.Errorf("%+v and %+v", mine, theirs)
	}
	x.mine.duplicates(mine.MessageID, x.mine.pushFor(x.queue, "k"))
	x.theirs.duplicates(theirs.MessageID, x.theirs.pushFor(x.queue, "k"))
}

func crossConfigure(x *crossing) {
	set := func(l *line, options string) (s cell.Settings) {
		l.Helper()
		l.post("/api/v1/configure", fmt.Sprintf(`{"queue":%q,"options":{%s}}`, x.queue, options), http.StatusOK, &s)
		return s
	}
	mine, theirs := set(x.mine, `"leaseTime":77,"retryLimit":7`), set(x.theirs, `"leaseTime":88`)
	x.mine.same("their options", []any{88.0, 3.0}, []any{theirs.Options["leaseTime"], theirs.Options["retryLimit"]})
	again := set(x.mine, "")
	x.mine.same("my options", mine, again)
	if mine.QueueID == theirs.QueueID {
		x.Errorf("one queue for both: %s", mine.QueueID)
	}
}

// pops crosses pops of one path. Groups, partitions and queues of both have the same names.
func (x *crossing) pops(path string) {
	x.Helper()
	x.mine.pushFor(x.queue, "mine")
	x.theirs.delivers(x.theirs.popFor(path))
	x.theirs.pushFor(x.queue, "theirs")
	mine, theirs := x.mine.popFor(path), x.theirs.popFor(path)
	x.mine.delivers(mine, "mine")
	x.theirs.delivers(theirs, "theirs") // mine is leased, theirs was not
	if mine.PartitionID == theirs.PartitionID || mine.LeaseID == theirs.LeaseID {
		x.Errorf("%+v and %+v", mine, theirs)
	}
}

// acks crosses acknowledgments by a route that wraps one as the format says.
func (x *crossing) acks(path, format string) {
	x.Helper()
	m := x.leased()
	x.theirs.pushFor(x.queue, "k")
	x.pop(x.theirs)
	for _, status := range []string{client.Completed, client.NotCompleted, client.Retry, client.DeadLetter} {
		for _, lease := range []string{m.LeaseID, ""} {
			x.likeUnknown(m.PartitionID, func(l *line, partition string) (int, string) {
				a := client.Acknowledgment{TransactionID: "k", PartitionID: partition, LeaseID: lease, Status: status}
				code, answer := l.send(http.MethodPost, path, fmt.Sprintf(format, x.ack(a)))
				if code != http.StatusOK || !strings.Contains(answer, `"success":false`) {
					x.Errorf("%d %s", code, answer)
				}
				return code, answer
			})
		}
	}
	x.stillMine(m)
}

// leases crosses a route that does something with a lease, whose id stands in the path.
func (x *crossing) leases(method, path string) {
	x.Helper()
	m := x.leased()
	x.theirs.pushFor(x.queue, "k")
	x.pop(x.theirs)
	for range 3 {
		x.likeUnknown(m.LeaseID, func(l *line, lease string) (int, string) {
			return l.send(method, fmt.Sprintf(path, lease), `{}`)
		})
	}
	x.stillMine(m)
}
