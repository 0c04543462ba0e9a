package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
)

// BenchmarkSpool pushes one message a request over HTTP while the database is down, 64 connections over 256 partitions, and
// then brings all of them to PostgreSQL. One operation is one message that was answered buffered.
func BenchmarkSpool(b *testing.B) {
	db := pgtest.New(b)
	link := newLink(b, db.Config)
	s := ready(b, link.config(), nil)
	link.set(down)
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	b.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	var pushed atomic.Int64
	b.SetParallelism(32) // times the processors
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			partition := pushed.Add(1) % 256
			body := fmt.Sprintf(`{"items":[{"queue":"orders","partition":"%d","transactionId":"%s","payload":{"order":%d,"note":"ring twice"}}]}`, partition, queue.NewID(), partition)
			response, err := client.Post(s.url+"/api/v1/push", "application/json", strings.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			answer, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if err != nil || !strings.Contains(string(answer), `"buffered"`) {
				b.Errorf("%s %v", answer, err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "spooled/s")
	b.StopTimer()
	began := time.Now()
	link.set(up)
	s.drained(b)
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "replayed/s")
}
