package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/queue"
)

func TestScanAck(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body string
		want AckRequest
	}{
		"every field": {
			`{"transactionId":"t","partitionId":"p","consumerGroup":"g","leaseId":"l","status":"failed","error":"smtp 550"}`,
			AckRequest{"g", []AckItem{{"t", "p", "l", AckFailed, "smtp 550"}}},
		},
		"nothing given": {`{}`, AckRequest{queue.QueueMode, []AckItem{{}}}},
		"null is absent": {
			`{"transactionId":null,"partitionId":null,"consumerGroup":null,"leaseId":null,"status":null,"error":null}`,
			AckRequest{queue.QueueMode, []AckItem{{}}},
		},
		"empty group is none":       {`{"consumerGroup":""}`, AckRequest{queue.QueueMode, []AckItem{{}}}},
		"unknown keys of any shape": {` {"x":[1,{"transactionId":"no"}],"transactionId":"t"} `, AckRequest{queue.QueueMode, []AckItem{{TransactionID: "t"}}}},
		"keys are case-sensitive":   {`{"transactionid":"no","Status":"retry"}`, AckRequest{queue.QueueMode, []AckItem{{}}}},
		"escapes":                   {`{"transactionId":"a\/b\u0026\ud83d\ude00\n","\u0065rror":"é"}`, AckRequest{queue.QueueMode, []AckItem{{TransactionID: "a/b&😀\n", Reason: "é"}}}},
		"the last of a key counts":  {`{"status":"retry","status":"dlq"}`, AckRequest{queue.QueueMode, []AckItem{{Status: AckDeadLetter}}}},
		"a batch's list is no key":  {`{"acknowledgments":7,"transactionId":"t"}`, AckRequest{queue.QueueMode, []AckItem{{TransactionID: "t"}}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ScanAck([]byte(test.body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestScanAckBatch(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body string
		want AckRequest
	}{
		"items keep their order": {
			`{"acknowledgments":[{"transactionId":"a","status":"completed"},{"transactionId":"b","status":"failed","error":"x"},{}],"consumerGroup":"g"}`,
			AckRequest{"g", []AckItem{{TransactionID: "a"}, {TransactionID: "b", Status: AckFailed, Reason: "x"}, {}}},
		},
		"an item's group is not read": {`{"acknowledgments":[{"consumerGroup":7}]}`, AckRequest{queue.QueueMode, []AckItem{{}}}},
		"top level is no item":        {`{"transactionId":"t","acknowledgments":[]}`, AckRequest{Group: queue.QueueMode}},
		"missing list":                {`{}`, AckRequest{Group: queue.QueueMode}},
		"null list":                   {`{"acknowledgments":null}`, AckRequest{Group: queue.QueueMode}},
		"the last list counts":        {`{"acknowledgments":[7],"acknowledgments":[{}]}`, AckRequest{queue.QueueMode, []AckItem{{}}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ScanAckBatch([]byte(test.body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestScanAck_StatusTable(t *testing.T) {
	t.Parallel()
	tests := map[string]AckStatus{
		`null`: AckCompleted, `"completed"`: AckCompleted, `"success"`: AckCompleted, `"acked"`: AckCompleted, `"ok"`: AckCompleted,
		`"retry"`: AckRetry, `"dlq"`: AckDeadLetter,
		`"failed"`: AckFailed, `""`: AckFailed, `"Completed"`: AckFailed, `"nack"`: AckFailed, `" ok"`: AckFailed, `"DLQ"`: AckFailed, `"Retry"`: AckFailed,
	}
	for status, want := range tests {
		got, err := ScanAck([]byte(`{"status":` + status + `}`))
		if err != nil {
			t.Fatalf("%s: %v", status, err)
		}
		if got.Items[0].Status != want {
			t.Errorf("status %s is %d, want %d", status, got.Items[0].Status, want)
		}
	}
}

func TestScanAck_BadBodies(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("g", queue.MaxNameBytes+1)
	tests := map[string]struct {
		scan  func([]byte) (AckRequest, error)
		body  string
		field string
		text  string
	}{
		"empty":                   {ScanAck, ``, "", "a value"},
		"no JSON":                 {ScanAck, `nope`, "", "null"},
		"not an object":           {ScanAck, `[]`, "", "not an object"},
		"null":                    {ScanAck, `null`, "", "not an object"},
		"cut off":                 {ScanAck, `{"transactionId":"t"`, "", "ends"},
		"more follows":            {ScanAck, `{} {}`, "", "more follows"},
		"not UTF-8":               {ScanAck, "{\"error\":\"\xff\"}", "", "UTF-8"},
		"number for an id":        {ScanAck, `{"transactionId":7}`, "transactionId", "not a string"},
		"number for a reason":     {ScanAck, `{"error":{}}`, "error", "not a string"},
		"half a surrogate":        {ScanAck, `{"transactionId":"\ud800"}`, "transactionId", "surrogate"},
		"group with a control":    {ScanAck, `{"consumerGroup":"a\u0000"}`, "consumerGroup", "control character"},
		"group too long":          {ScanAck, `{"consumerGroup":"` + long + `"}`, "consumerGroup", "at most"},
		"group is no string":      {ScanAckBatch, `{"consumerGroup":[]}`, "consumerGroup", "not a string"},
		"list is an object":       {ScanAckBatch, `{"acknowledgments":{}}`, "acknowledgments", "not an array"},
		"element is no object":    {ScanAckBatch, `{"acknowledgments":[{},null]}`, "acknowledgments[1]", "not an object"},
		"lease is a number":       {ScanAckBatch, `{"acknowledgments":[{},{},{"leaseId":1}]}`, "acknowledgments[2].leaseId", "not a string"},
		"broken JSON comes first": {ScanAckBatch, `{"acknowledgments":[{"leaseId":1}],}`, "", "quoted key"},
		"too deep":                {ScanAckBatch, `{"x":` + strings.Repeat("[", MaxDepth), "", "deeper"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := test.scan([]byte(test.body))
			var invalid *queue.Error
			if !errors.As(err, &invalid) || invalid.Kind != queue.KindInvalid {
				t.Fatalf("error is %v", err)
			}
			if invalid.Field != test.field || !strings.HasPrefix(invalid.Message, "bad body: ") || !strings.Contains(invalid.Message, test.text) {
				t.Errorf("field %q, message %q", invalid.Field, invalid.Message)
			}
		})
	}
}

// FuzzScanAck holds that no body makes the scanner panic and that what it accepts has the same identifiers again when
// they are written down anew.
func FuzzScanAck(f *testing.F) {
	f.Add([]byte(`{"consumerGroup":"g","acknowledgments":[{"transactionId":"a\u0041","partitionId":"p","leaseId":"l","status":"ok","error":null}]}`))
	f.Add([]byte(`{"acknowledgments":[{"transactionId":"\ud83d\ude00"},{"x":[[]]}]}`))
	f.Add([]byte(`{"acknowledgments":null,"acknowledgments":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		request, err := ScanAckBatch(body)
		if err != nil {
			return
		}
		again := []byte(`{"acknowledgments":[`)
		for i, item := range request.Items {
			if i > 0 {
				again = append(again, ',')
			}
			again = AppendString(append(again, `{"transactionId":`...), item.TransactionID)
			again = AppendString(append(again, `,"partitionId":`...), item.PartitionID)
			again = AppendString(append(again, `,"leaseId":`...), item.LeaseID)
			again = AppendString(append(again, `,"error":`...), item.Reason)
			status := []string{"ok", "retry", "failed", "dlq"}[item.Status]
			again = append(AppendString(append(again, `,"status":`...), status), '}')
		}
		again = AppendString(append(again, `],"consumerGroup":`...), request.Group)
		got, err := ScanAckBatch(append(again, '}'))
		if err != nil {
			t.Fatalf("%v in %s", err, again)
		}
		if diff := cmp.Diff(request, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAppendAckResults(t *testing.T) {
	t.Parallel()
	got := AppendAckResults(nil, []AckResult{
		{TransactionID: "inv-55-created", LeaseReleased: true},
		{TransactionID: "b\"\\", Noop: true},
		{TransactionID: "c", LeaseReleased: true, DeadLettered: true},
		{Error: "invalid or expired lease"},
	})
	golden(t, "ack_results.json", append(got, '\n'))
	if got := string(AppendAckResults(nil, nil)); got != "[]" {
		t.Errorf("no items: %s", got)
	}
}
