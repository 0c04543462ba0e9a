package judge_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"queen.internal/pkg/pgtest"
	"queen.internal/test/chaos/internal/judge"
	"queen.internal/test/history"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.CheckLeaks) }

const message = "0199a000-0000-7000-8000-000000000001"

// failed is an ack that says no to the message.
func failed(status string, dead, lost bool) history.Ack {
	return history.Ack{
		Call: history.Call{Lost: lost}, Group: "g", Partition: history.Partition{Queue: "q", Name: "p"}, Dead: dead,
		Items: []history.AckItem{{ID: message, Status: status, OK: !lost}},
	}
}

func TestDeadLettersAreThoseThatAcksMade(t *testing.T) {
	t.Parallel()
	one := failed("failed", false, false)
	for name, tc := range map[string]struct {
		acks  []history.Ack
		rows  int
		wrong string
	}{
		"after its retries":      {[]history.Ack{one, one, failed("failed", true, false)}, 1, ""},
		"at once":                {[]history.Ack{failed("dlq", true, false)}, 1, ""},
		"by an unanswered ack":   {[]history.Ack{failed("dlq", false, true)}, 1, ""},
		"perhaps":                {[]history.Ack{failed("failed", false, true)}, 0, ""},
		"missing":                {[]history.Ack{failed("dlq", true, false)}, 0, "is filed 0 times"},
		"twice":                  {[]history.Ack{failed("dlq", true, false)}, 2, "is filed 2 times"},
		"from nowhere":           {nil, 1, "nobody gave up"},
		"by a failure too few":   {[]history.Ack{one}, 1, "nobody gave up"},
		"after too many retries": {[]history.Ack{one, one, one, failed("failed", true, false)}, 1, "failed 4 times"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			if _, err := db.Pool.Exec(t.Context(), `INSERT INTO queen.queues (tenant, name, namespace, task) VALUES (gen_random_uuid(), 'q', 'q', '')`); err != nil {
				t.Fatal(err)
			}
			for range tc.rows {
				if _, err := db.Pool.Exec(t.Context(), `INSERT INTO queen.dlq (id, queue_id, partition_id, message_offset, failed_at, created_at, retry_count,
					message_id, group_name, transaction_id, error, payload) SELECT gen_random_uuid(), id, 1, 0, now(), now(), 2, $1, 'g', 't', 'e', '1'
					FROM queen.queues`, message); err != nil {
					t.Fatal(err)
				}
			}
			n, wrong, err := judge.Letters(t.Context(), db.Pool, "q", 2, &history.History{Acks: tc.acks})
			if err != nil || n != tc.rows {
				t.Fatal(n, err)
			}
			if got := strings.Join(wrong, "\n"); !strings.Contains(got, tc.wrong) || (got == "") != (tc.wrong == "") {
				t.Errorf("%q, want %q", got, tc.wrong)
			}
		})
	}
}

func TestWhatHasGrownIsFound(t *testing.T) {
	t.Parallel()
	before := map[string]judge.Resources{"ingest.1": {Goroutines: 100, Files: 50}}
	for text, after := range map[string]judge.Resources{"": {Goroutines: 185, Files: 60}, "ingest.1": {Goroutines: 400, Files: 60}} {
		wrong := judge.Grown(before, map[string]judge.Resources{"ingest.1": after})
		if got := strings.Join(wrong, "\n"); !strings.Contains(got, text) || (got == "") != (text == "") {
			t.Errorf("%+v: %q", after, got)
		}
	}
}

func TestAServiceThatWritesTooMuchIsFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "logs"), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, line string, lines int) {
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Format(time.RFC3339Nano)
		if err := os.WriteFile(filepath.Join(dir, "logs", name), []byte(strings.Repeat(fmt.Sprintf("%s %s\n", at, line), lines)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("edge.log", "WARN http: request status=503", 1000)
	write("ingest.1.log", "WARN spool: full", 100)
	if wrong, err := judge.Loud(dir); err != nil || len(wrong) != 0 {
		t.Errorf("%v, %v", wrong, err)
	}
	write("deliver.1.log", "WARN ready: behind", 101)
	if wrong, err := judge.Loud(dir); err != nil || len(wrong) != 1 || !strings.Contains(wrong[0], "deliver.1.log has 101 lines") {
		t.Errorf("%v, %v", wrong, err)
	}
}
