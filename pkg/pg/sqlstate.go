package pg

import "queen.internal/pkg/queue"

// verdict is what one SQLSTATE means for the caller and for the connection it came over.
type verdict struct {
	kind      queue.Kind
	transient bool // the same call can succeed later, without another input
	boot      bool // fatal when it ends the first connection of a process: only an operator heals it
	missing   bool // the schema, or a part of it, is not there: older than this binary, or being installed
	drop      bool // the connection must not be used again
	flush     bool // nor any other connection of the pool: the server behind them changed its role
}

var (
	ourFault    = verdict{kind: queue.KindInternal}
	badInput    = verdict{kind: queue.KindInvalid}
	tooLarge    = verdict{kind: queue.KindTooLarge}
	unavailable = verdict{kind: queue.KindUnavailable, transient: true}
	refused     = verdict{kind: queue.KindUnavailable, transient: true, boot: true}
	noSchema    = verdict{kind: queue.KindUnavailable, transient: true, missing: true}
	lostServer  = verdict{kind: queue.KindUnavailable, transient: true, drop: true}
	readOnly    = verdict{kind: queue.KindUnavailable, transient: true, drop: true, flush: true}
)

// sqlstates is the one table of SQLSTATEs, keyed by the five characters of a state or the two of its class; a state's
// own row wins over its class, and what neither names is a fault of ours. The rows of class QU are raised by our own
// procedures and are the same as in sql/README.md.
var sqlstates = map[string]verdict{
	"QU001": ourFault, // a procedure's arguments contradict each other
	"QU002": ourFault, // undoes a transaction; never leaves its procedure

	"08": unavailable, // connection exception
	"0A": noSchema,    // feature not supported: "cached plan must not change result type" while the schema changes

	"22":    ourFault,
	"22001": badInput, // string too long
	"22021": badInput, // not valid in the database's encoding
	"22P02": badInput, // text that is no value of its type
	"22P05": badInput, // a character the encoding lacks

	"23": ourFault, // constraint violation: procedures provide for every one a caller could cause

	"25006": readOnly,   // read-only transaction: a standby, or a primary that was demoted
	"25P03": lostServer, // idle in transaction timeout
	"26000": lostServer, // a prepared statement that this server does not know: the backend behind a pooler changed
	"28":    refused,    // invalid authorization: wrong password, no such role, refused by pg_hba.conf
	"3D000": refused,    // no such database
	"3F000": noSchema,   // no such schema

	"40001": unavailable, // serialization failure
	"40003": lostServer,  // statement completion unknown
	"40P01": unavailable, // deadlock

	"42501": noSchema, // insufficient privilege: not granted yet
	"42703": noSchema, // no such column
	"42883": noSchema, // no such function
	"42P01": noSchema, // no such table

	"53": unavailable, // out of memory, disk, connections
	"54": tooLarge,    // a limit of the server, such as the longest index entry

	"55006": unavailable, // object in use
	"55P03": unavailable, // lock not available within lock_timeout

	"57014": lostServer, // statement timeout or a cancel request, which may hit late: never reuse the connection
	"57P01": lostServer, // admin shutdown
	"57P02": lostServer, // crash shutdown
	"57P03": lostServer, // cannot connect now: starting up, shutting down, in recovery
	"57P04": lostServer, // database dropped
	"57P05": lostServer, // idle session timeout

	"58":    unavailable, // I/O error, missing file: the server's disk
	"F0":    unavailable, // configuration file error
	"XX":    ourFault,
	"XX001": unavailable, // data corrupted: retrying may not help, but the input is not to blame
	"XX002": unavailable, // index corrupted
}

// judge looks a SQLSTATE up.
func judge(code string) verdict {
	if v, ok := sqlstates[code]; ok {
		return v
	}
	if len(code) >= 2 {
		if v, ok := sqlstates[code[:2]]; ok {
			return v
		}
	}
	return ourFault
}
