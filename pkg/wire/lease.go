package wire

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// DefaultExtendSeconds is how long a renewal lasts that does not say.
const DefaultExtendSeconds = 60

// ExtendSeconds reads the body of a lease renewal. It never fails: whatever has no whole number in "seconds" is a
// renewal by the default, and a lease is renewed for at least a second.
func ExtendSeconds(body []byte) int {
	var request map[string]json.RawMessage // a struct would match the key in any case
	if json.Unmarshal(body, &request) != nil {
		return DefaultExtendSeconds
	}
	n, err := strconv.ParseInt(string(request["seconds"]), 10, 64)
	if err != nil {
		return DefaultExtendSeconds
	}
	return int(min(max(n, 1), math.MaxInt32))
}

// LeaseExtension is the outcome of a renewal.
type LeaseExtension struct {
	Lease   string // as the path had it
	Renewed int    // cursors whose lease was renewed
	Expires time.Time
}

// AppendLeaseExtension appends the body of a renewal's answer. Three keys carry the one time, because three generations
// of clients look for it under three names.
func AppendLeaseExtension(dst []byte, e LeaseExtension) []byte {
	dst = append(dst, `{"leaseId":`...)
	dst = AppendString(dst, e.Lease)
	dst = append(dst, `,"success":`...)
	dst = strconv.AppendBool(dst, e.Renewed > 0)
	dst = append(dst, `,"renewed":`...)
	dst = strconv.AppendInt(dst, int64(e.Renewed), 10)
	for _, key := range [...]string{"newExpiresAt", "expiresAt", "lease_expires_at"} {
		dst = append(dst, `,"`...)
		dst = append(dst, key...)
		dst = append(dst, `":`...)
		if e.Renewed > 0 {
			dst = appendTime(dst, e.Expires)
		} else {
			dst = append(dst, "null"...)
		}
	}
	return append(dst, '}')
}

// LeaseRelease is the outcome of a give-back.
type LeaseRelease struct {
	Lease    string // as the path had it
	Released int    // cursors that are as if the lease had never been
}

// AppendLeaseRelease appends the body of a give-back's answer. A lease that has ended or was acked is nothing to give
// back, which is no error.
func AppendLeaseRelease(dst []byte, r LeaseRelease) []byte {
	dst = append(dst, `{"leaseId":`...)
	dst = AppendString(dst, r.Lease)
	dst = append(dst, `,"success":`...)
	dst = strconv.AppendBool(dst, r.Released > 0)
	dst = append(dst, `,"released":`...)
	dst = strconv.AppendInt(dst, int64(r.Released), 10)
	return append(dst, '}')
}
