package campaign

import (
	"fmt"
	"strings"
	"testing"

	"queen.internal/test/chaos/internal/fault"
)

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]*Verdict{
		Valid:   {},
		Unknown: {Lacks: []string{"kill: 1 of 2 doses met work"}},
		Invalid: {Lacks: []string{"too little"}, Wrong: []string{"log: loss"}},
	} {
		v.Counts, v.Faults = map[string]int{"queued": 3, "acked": 2}, map[string]*fault.Tally{"kill": {Doses: 2, Met: 1}}
		v.Dir, v.Repeat = "/folder", "go run"
		v.conclude()
		if v.Verdict != want || !strings.HasPrefix(v.Line(), want+" acked=2 queued=3 faults=kill:1/2 ") {
			t.Errorf("%s: %s", want, v.Line())
		}
		if told := strings.Contains(v.Report(), "repeat: go run"); told != (want != Valid) {
			t.Errorf("%s", v.Report())
		}
	}
}

func TestAReportIsReadable(t *testing.T) {
	t.Parallel()
	v := &Verdict{}
	for i := range 1000 {
		v.Wrong = append(v.Wrong, fmt.Sprint("finding ", i))
	}
	v.conclude()
	if text := v.Report(); !strings.Contains(text, "finding 19\n") || strings.Contains(text, "finding 20\n") || !strings.Contains(text, "and 980 more") {
		t.Error(text)
	}
}
