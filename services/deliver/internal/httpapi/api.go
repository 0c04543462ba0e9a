// Package httpapi is the HTTP side of deliver: for each of its rows in the route table a handler that decodes, calls one
// function and encodes. It holds no state and knows no SQL.
package httpapi

import (
	"time"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/modes"
	"queen.internal/pkg/store/deadletter"
	"queen.internal/pkg/wire"
	"queen.internal/services/deliver/internal/ack"
	"queen.internal/services/deliver/internal/announce"
	"queen.internal/services/deliver/internal/giveback"
	"queen.internal/services/deliver/internal/groups"
	"queen.internal/services/deliver/internal/live"
	"queen.internal/services/deliver/internal/pop"
	"queen.internal/services/deliver/internal/transaction"
)

// API is what the handlers call.
type API struct {
	Pops         *pop.Engine
	Acks         *ack.Service
	Returns      *giveback.Giver
	Groups       *groups.Service
	Transactions *transaction.Service
	Live         *live.Service
	News         *announce.Announcer
	Modes        *modes.Keeper
	Defaults     wire.PopDefaults

	DeadLetters *deadletter.Store
	Timeout     time.Duration // of one call to it
}

// Handlers are the handlers by row name.
func (a *API) Handlers() map[string]gin.HandlerFunc {
	return map[string]gin.HandlerFunc{
		"pop_queue":     a.popQueue,
		"pop_partition": a.popPartition,
		"pop_discover":  a.popDiscover,
		"ack":           a.ackOne,
		"ack_batch":     a.ackBatch,
		"transaction":   a.transaction,
		"lease_extend":  a.extendLease,
		"lease_release": a.releaseLease,

		"dlq_purge":            a.purgeDeadLetters,
		"message_delete":       a.deleteMessage,
		"group_seek":           a.seekQueue,
		"group_seek_partition": a.seekPartition,
		"group_subscription":   a.changeSubscription,
		"group_delete":         a.deleteGroup,
		"group_delete_queue":   a.deleteGroupOnQueue,
		"queue_depth":          a.depth,

		"queue_pause":  a.pauseQueue,
		"queue_resume": a.resumeQueue,
		"group_pause":  a.pauseGroup,
		"group_resume": a.resumeGroup,

		"leases":    a.listLeases,
		"lease_end": a.endLease,
		"notify":    a.notify,

		"pop_maintenance":     a.popMaintenance,
		"pop_maintenance_set": a.setPopMaintenance,
	}
}
