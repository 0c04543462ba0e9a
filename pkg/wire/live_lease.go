package wire

import (
	"strconv"
	"time"

	"github.com/google/uuid"
)

// LiveLease is one partition under a live lease.
type LiveLease struct {
	Lease                   uuid.UUID
	Queue, Partition, Group string
	PartitionID             uuid.UUID
	First, Last             int64 // offsets
	Attempt                 int
	Expires                 time.Time
}

// AppendLiveLeases appends the body that lists leases; truncated says that there are more.
func AppendLiveLeases(dst []byte, leases []LiveLease, truncated bool) []byte {
	dst = append(dst, `{"leases":[`...)
	for i := range leases {
		l := &leases[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"leaseId":"`...)
		dst = append(dst, l.Lease.String()...)
		dst = append(dst, `","queue":`...)
		dst = AppendString(dst, l.Queue)
		dst = append(dst, `,"partition":`...)
		dst = AppendString(dst, l.Partition)
		dst = append(dst, `,"partitionId":"`...)
		dst = append(dst, l.PartitionID.String()...)
		dst = append(dst, `","consumerGroup":`...)
		dst = AppendString(dst, l.Group)
		dst = append(dst, `,"firstOffset":`...)
		dst = strconv.AppendInt(dst, l.First, 10)
		dst = append(dst, `,"lastOffset":`...)
		dst = strconv.AppendInt(dst, l.Last, 10)
		dst = append(dst, `,"attempt":`...)
		dst = strconv.AppendInt(dst, int64(l.Attempt), 10)
		dst = append(dst, `,"expiresAt":`...)
		dst = appendTime(dst, l.Expires)
		dst = append(dst, '}')
	}
	dst = append(dst, `],"truncated":`...)
	dst = strconv.AppendBool(dst, truncated)
	return append(dst, '}')
}
