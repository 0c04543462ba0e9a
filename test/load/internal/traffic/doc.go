// Package traffic is the load: producers that push batches and consumers that pop and ack them, each on a connection of
// its own, as fast as they are answered or to a schedule. Everything goes through a ledger.
//
// # Concurrency
//
// Each worker is a goroutine with its own connection, buffers and recorder; Produce and Consume return when their workers
// have ended. A worker that is told to end finishes the call under way, and acks what it was given, so no lease and no
// message of unknown fate stays behind.
package traffic

import (
	"net/url"
	"time"

	"queen.internal/test/load/internal/ledger"
)

// Target is where the load goes to. Several addresses are used in turn by the workers.
type Target struct {
	Ingest, Deliver []string // host:port
	Tenant          string   // empty where tenancy is off
	Queue           string
}

// callTimeout is what any call gets beyond the time that it may be parked. What takes longer has an unknown outcome.
const callTimeout = 30 * time.Second

// pickTarget spreads workers over addresses.
func pickTarget(addrs []string, worker int) string { return addrs[worker%len(addrs)] }

// errorPause keeps a worker whose calls fail from spinning.
const errorPause = 50 * time.Millisecond

// partitionName is a partition's name on the wire.
func partitionName(b []byte, number uint32) []byte {
	const digits = 7
	b = append(b, "p0000000"...)
	for i := len(b) - 1; number > 0 && i >= len(b)-digits; i-- {
		b[i] = byte('0' + number%10)
		number /= 10
	}
	return b
}

func queuePath(queue string) string { return "/api/v1/pop/queue/" + url.PathEscape(queue) }

// Groups names the consumer groups of a ledger: queue mode when there is one without a name.
func Groups(l *ledger.Ledger, named bool) []string {
	names := make([]string, l.Groups())
	for i := range names {
		if named || len(names) > 1 {
			names[i] = "load-" + string(rune('a'+i))
		}
	}
	return names
}
