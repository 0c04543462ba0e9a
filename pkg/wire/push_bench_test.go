package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"queen.internal/pkg/queue"
)

func benchBody(items int) []byte {
	const words = `{"order":1234567,"customer":"north harbour","lines":["copper kettle","linen cloth","walnut board"],"note":"leave at the back door, ring twice and wait","total":129.95,"paid":true,"ship":{"city":"Bergen","street":"Nygata","no":14,"zip":"5017"},"tags":["gift","fragile"]}`
	var b strings.Builder
	for i := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"queue":"orders.created","partition":"customer-%d","transactionId":"%s","payload":%s}`, i%7, queue.NewID(), words)
	}
	return []byte(`{"items":[` + b.String() + `]}`)
}

func BenchmarkScanPush(b *testing.B) {
	for _, items := range []int{1, 100} {
		body := benchBody(items)
		b.Run(fmt.Sprintf("items=%d", items), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if got, err := ScanPush(body); err != nil || len(got) != items {
					b.Fatal(len(got), err)
				}
			}
		})
		b.Run(fmt.Sprintf("items=%d/encoding_json", items), func(b *testing.B) { // what the scanner saves
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				var push struct {
					Items []struct {
						Queue, Partition, TransactionID string
						Payload                         json.RawMessage
					}
				}
				if err := json.Unmarshal(body, &push); err != nil || len(push.Items) != items {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendPushResults(b *testing.B) {
	results := make([]PushResult, 100)
	for i := range results {
		results[i] = PushResult{MessageID: queue.NewID(), TransactionID: queue.NewID().String(), Queue: "orders.created", Status: Queued}
	}
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = AppendPushResults(out[:0], results)
	}
}
