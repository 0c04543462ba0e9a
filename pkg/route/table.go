// Package route is the one table of HTTP routes: services mount their handlers from it, the gateway routes and
// classifies by it, and documents are printed from it. It knows nothing of handlers.
package route

// Role is the service that owns a route.
type Role string

// The roles of a cell. Every marks the rows that each service answers for itself.
const (
	Ingest     Role = "ingest"
	Deliver    Role = "deliver"
	Maintainer Role = "maintainer"
	Console    Role = "console"
	Every      Role = "every service"
)

// Level is the access a caller needs when authentication is on.
type Level string

// The access levels of contract/admin.md section 3.
const (
	Public    Level = "public"
	ReadOnly  Level = "read-only"
	WriteOnly Level = "write-only"
	ReadWrite Level = "read-write"
	Admin     Level = "admin"
)

// Class groups routes by what they cost a tenant.
type Class string

// The classes the gateway accounts by.
const (
	ClassPush   Class = "push"
	ClassPop    Class = "pop"
	ClassAck    Class = "ack"
	ClassManage Class = "manage"
	ClassHealth Class = "health"
)

// Row is one route. Path is in gin's form: ":name" is one percent-encoded segment.
type Row struct {
	Name   string // what handlers register under
	Method string
	Path   string
	Role   Role
	Level  Level
	Tenant bool // names in the request belong to a tenant
	Class  Class
}

// Table is every route served, in the order in which documents print it.
var Table = []Row{
	{"push", "POST", "/api/v1/push", Ingest, WriteOnly, true, ClassPush},
	{"configure", "POST", "/api/v1/configure", Ingest, ReadWrite, true, ClassManage},
	{"queue_delete", "DELETE", "/api/v1/resources/queues/:queue", Ingest, Admin, true, ClassManage},
	{"queue_pause", "POST", "/api/v1/resources/queues/:queue/pause", Deliver, ReadWrite, true, ClassManage},
	{"queue_resume", "POST", "/api/v1/resources/queues/:queue/resume", Deliver, ReadWrite, true, ClassManage},
	{"group_pause", "POST", "/api/v1/consumer-groups/:group/queues/:queue/pause", Deliver, ReadWrite, true, ClassManage},
	{"group_resume", "POST", "/api/v1/consumer-groups/:group/queues/:queue/resume", Deliver, ReadWrite, true, ClassManage},

	{"pop_discover", "GET", "/api/v1/pop", Deliver, ReadWrite, true, ClassPop},
	{"pop_queue", "GET", "/api/v1/pop/queue/:queue", Deliver, ReadWrite, true, ClassPop},
	{"pop_partition", "GET", "/api/v1/pop/queue/:queue/partition/:partition", Deliver, ReadWrite, true, ClassPop},
	{"ack", "POST", "/api/v1/ack", Deliver, ReadWrite, true, ClassAck},
	{"ack_batch", "POST", "/api/v1/ack/batch", Deliver, ReadWrite, true, ClassAck},
	{"transaction", "POST", "/api/v1/transaction", Deliver, ReadWrite, true, ClassPush},
	{"lease_extend", "POST", "/api/v1/lease/:leaseId/extend", Deliver, ReadWrite, true, ClassAck},
	{"leases", "GET", "/api/v1/leases", Deliver, Admin, true, ClassManage},
	{"lease_end", "DELETE", "/api/v1/leases/:leaseId", Deliver, Admin, true, ClassManage},
	{"lease_release", "POST", "/internal/api/lease/:leaseId/release", Deliver, ReadWrite, true, ClassAck},

	{"message_list", "GET", "/api/v1/messages", Console, ReadOnly, true, ClassManage},
	{"message_get", "GET", "/api/v1/messages/:partitionId/:transactionId", Console, ReadOnly, true, ClassManage},
	{"retention", "GET", "/api/v1/analytics/retention", Console, ReadOnly, true, ClassManage},
	{"dlq_list", "GET", "/api/v1/dlq", Console, ReadOnly, true, ClassManage},
	{"dlq_purge", "DELETE", "/api/v1/dlq", Deliver, Admin, true, ClassManage},
	{"message_retry", "POST", "/api/v1/messages/:partitionId/:transactionId/retry", Ingest, ReadWrite, true, ClassManage},
	{"dlq_replay", "POST", "/api/v1/dlq/:id/replay", Ingest, ReadWrite, true, ClassManage},
	{"message_delete", "DELETE", "/api/v1/messages/:partitionId/:transactionId", Deliver, ReadWrite, true, ClassManage},
	{"queue_depth", "GET", "/api/v1/resources/queues/:queue/depth", Deliver, ReadOnly, true, ClassManage},
	{"group_delete", "DELETE", "/api/v1/consumer-groups/:group", Deliver, Admin, true, ClassManage},
	{"group_subscription", "POST", "/api/v1/consumer-groups/:group/subscription", Deliver, ReadWrite, true, ClassManage},
	{"group_delete_queue", "DELETE", "/api/v1/consumer-groups/:group/queues/:queue", Deliver, Admin, true, ClassManage},
	{"group_seek", "POST", "/api/v1/consumer-groups/:group/queues/:queue/seek", Deliver, ReadWrite, true, ClassManage},
	{"group_seek_partition", "POST", "/api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek", Deliver, ReadWrite, true, ClassManage},
	{"notify", "POST", "/internal/api/notify", Deliver, Admin, true, ClassManage},

	{"buffers", "GET", "/api/v1/status/buffers", Ingest, ReadOnly, false, ClassManage},
	{"maintenance", "GET", "/api/v1/system/maintenance", Ingest, Admin, false, ClassManage},
	{"maintenance_set", "POST", "/api/v1/system/maintenance", Ingest, Admin, false, ClassManage},
	{"pop_maintenance", "GET", "/api/v1/system/maintenance/pop", Deliver, Admin, false, ClassManage},
	{"pop_maintenance_set", "POST", "/api/v1/system/maintenance/pop", Deliver, Admin, false, ClassManage},

	{"health", "GET", "/health", Every, Public, false, ClassHealth},
	{"livez", "GET", "/livez", Every, Public, false, ClassHealth},
	{"readyz", "GET", "/readyz", Every, Public, false, ClassHealth},
	{"status", "GET", "/status", Every, ReadOnly, false, ClassHealth},
	{"shared_state", "GET", "/api/v1/system/shared-state", Every, Admin, false, ClassManage},
	{"shared_state_stats", "GET", "/internal/api/shared-state/stats", Every, Admin, false, ClassManage},
	{"inter_instance_stats", "GET", "/internal/api/inter-instance/stats", Every, Admin, false, ClassManage},
	{"metrics_prometheus", "GET", "/metrics/prometheus", Every, Public, false, ClassHealth},
}
