package wire

import (
	"math"
	"testing"
	"time"
)

func TestExtendSeconds(t *testing.T) {
	t.Parallel()
	tests := map[string]int{
		``: 60, `{}`: 60, `nope`: 60, `[]`: 60, `null`: 60, `{"seconds":null}`: 60, `{"seconds":"5"}`: 60, `{"seconds":1.5}`: 60,
		`{"seconds":120}`: 120, `{"seconds":0}`: 1, `{"seconds":-5}`: 1, `{"seconds": 7 ,"x":1}`: 7, `{"Seconds":300}`: 60,
		`{"seconds":99999999999}`: math.MaxInt32, `{"seconds":99999999999999999999}`: 60,
	}
	for body, want := range tests {
		if got := ExtendSeconds([]byte(body)); got != want {
			t.Errorf("%s is %d seconds, want %d", body, got, want)
		}
	}
}

func TestAppendLeaseExtension(t *testing.T) {
	t.Parallel()
	expires := time.Date(2026, 8, 1, 12, 2, 0, 0, time.FixedZone("CEST", 2*3600))
	got := AppendLeaseExtension(nil, LeaseExtension{Lease: "01990a11-0000-7a10-8a10-000000000001", Renewed: 2, Expires: expires})
	got = append(got, '\n')
	got = AppendLeaseExtension(got, LeaseExtension{Lease: "not a \"lease\""})
	golden(t, "lease_extension.jsonl", append(got, '\n'))
}

func TestAppendLeaseRelease(t *testing.T) {
	t.Parallel()
	got := AppendLeaseRelease(nil, LeaseRelease{Lease: "01990a11-0000-7a10-8a10-000000000001", Released: 2})
	got = append(got, '\n')
	got = AppendLeaseRelease(got, LeaseRelease{Lease: "not a \"lease\""})
	golden(t, "lease_release.jsonl", append(got, '\n'))
}
