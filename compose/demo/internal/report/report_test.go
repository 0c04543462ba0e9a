package report_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/compose/demo/internal/drive"
	"queen.internal/compose/demo/internal/ledger"
	"queen.internal/compose/demo/internal/report"
)

var update = flag.Bool("update", false, "write the golden files")

func TestTable(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, outcome := range map[string]drive.Outcome{
		"full": {
			Totals: ledger.Totals{
				Messages: 1234567, Already: 12, Partitions: 1000, FirstPush: start, LastPush: start.Add(100 * time.Second),
				Groups: []ledger.Group{
					{Name: "index-r1", Delivered: 1234567, Acked: 1234567, LastAck: start.Add(125 * time.Second)},
					{
						Name: "audit-r1", Delivered: 1234560, Redelivered: 100, OutOfOrder: 3, Altered: 1, Unknown: 1, Acked: 1234560,
						Missing: 7, LastAck: start.Add(150 * time.Second), FirstAgain: start.Add(4200 * time.Millisecond),
					},
				},
			},
			Death: drive.Death{Group: "audit-r1", Held: 100, At: start.Add(time.Second)},
		},
		"interrupted": {
			Totals: ledger.Totals{
				Messages: 20, Partitions: 2, FirstPush: start, LastPush: start.Add(time.Second),
				Groups: []ledger.Group{{Name: "index-r1", Delivered: 12, Acked: 10, Missing: 10, LastAck: start.Add(time.Second)}},
			},
			Cut: true,
		},
		"nothing": {Totals: ledger.Totals{Groups: []ledger.Group{{Name: "index-r1"}, {Name: "audit-r1"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got bytes.Buffer
			report.Table(&got, outcome)
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestProgressIsALineEachTimeWithoutATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := report.NewProgress(&out)
	p.Show(ledger.Totals{Messages: 1200, Groups: []ledger.Group{{Name: "g", Acked: 1000, Redelivered: 7, OutOfOrder: 1, Missing: 200}}})
	p.Show(ledger.Totals{Messages: 1200, Groups: []ledger.Group{{Name: "g", Acked: 1200}}})
	p.End()
	want := "pushed 1 200 · g 1 000 (7 again) · faults 1\npushed 1 200 · g 1 200 · faults 0\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
