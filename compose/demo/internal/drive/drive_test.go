package drive_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"queen.internal/compose/demo/internal/drive"
	"queen.internal/compose/demo/internal/ledger"
	"queen.internal/compose/demo/internal/source"
	"queen.internal/pkg/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRunRecognisesItsOwnMessages(t *testing.T) {
	t.Parallel()
	run, payload := drive.Run("r1"), []byte(`{"a": 1}`)
	id := run.TransactionID(42, payload)
	if again := run.TransactionID(42, payload); again != id {
		t.Errorf("%q and %q for the same message", id, again)
	}
	for name, test := range map[string]struct {
		run          drive.Run
		id           string
		payload      string
		sequence     int
		intact, ours bool
	}{
		"Own":            {run, id, `{"a": 1}`, 42, true, true},
		"OneBlankLess":   {run, id, `{"a":1}`, 42, false, true},
		"OfAnotherRun":   {"r", id, `{"a": 1}`, 0, false, false},
		"NoNumber":       {run, "r1/x/y", `{"a": 1}`, 0, false, false},
		"NoDigest":       {run, "r1/42", `{"a": 1}`, 0, false, false},
		"SomethingElse":  {run, "order-7", `{"a": 1}`, 0, false, false},
		"OnlyTheRunName": {run, "r1", `{"a": 1}`, 0, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sequence, intact, ours := test.run.Parse(test.id, []byte(test.payload))
			if sequence != test.sequence || intact != test.intact || ours != test.ours {
				t.Errorf("Parse = %d, %v, %v; want %d, %v, %v", sequence, intact, ours, test.sequence, test.intact, test.ours)
			}
		})
	}
}

// Whatever the victim does other than hold a batch until it is killed makes the run fail instead of hang.
func TestExecuteNoticesAVictimThatMisbehaves(t *testing.T) {
	t.Parallel()
	// This cell registers groups and answers nothing else, so that only the victim can end the run.
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Query().Get("wait") == "" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client has gone
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	for script, says := range map[string]string{
		"exit 3":                  "the victim ended by itself",
		"echo nonsense; cat":      "report of the victim",
		"kill -9 $$":              "the victim ended by itself",
		"echo '{\"sequence\":1}'": "the victim ended by itself",
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			c, err := client.New(client.Options{URL: silent.URL})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, err = drive.Execute(t.Context(), drive.Options{
				Client: c, Queue: "q", Run: "r", Groups: []string{"g"}, Workers: 2, Patience: time.Minute,
				Records: func(yield func(source.Record, error) bool) {
					yield(source.Record{Partition: "p", Payload: []byte("1")}, nil)
				},
				Victim:   func(string) *exec.Cmd { return exec.Command("sh", "-c", script) },
				Progress: func(ledger.Totals) {},
			})
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("error %v, want %q", err, says)
			}
		})
	}
}
