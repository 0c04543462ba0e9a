package pg

// What the tests of the package's behaviour need to see of its inside.
const TimelineSQL = timelineSQL

var (
	Dialer    = dialer
	SQLStates = func() []string {
		var codes []string
		for code := range sqlstates {
			codes = append(codes, code)
		}
		return codes
	}
)
