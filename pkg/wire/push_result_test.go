package wire

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestAppendPushResults(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("01990a10-7c1e-7b60-9f10-2f6c0a4b8d11")
	got := AppendPushResults(nil, []PushResult{
		{MessageID: id, TransactionID: "inv-55-created", Queue: "billing.invoice", Status: Queued},
		{MessageID: uuid.Nil, TransactionID: "a\"b\\c é", Queue: "q/\u2028", Status: Duplicate},
		{MessageID: id, TransactionID: "t", Queue: "q", Status: Buffered},
		{MessageID: id, TransactionID: "t", Queue: "", Status: Failed, Error: "PostgreSQL: \"no\"\n"},
	})
	golden(t, "push_results.json", append(got, '\n'))
}

func TestAppendPushResults_NoItems(t *testing.T) {
	t.Parallel()
	if got := string(AppendPushResults(nil, nil)); got != "[]" {
		t.Errorf("got %s", got)
	}
}
