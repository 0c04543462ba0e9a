package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"queen.internal/pkg/config"
	"queen.internal/pkg/daemon"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
)

// BenchmarkPush pushes over HTTP into PostgreSQL, 64 connections over 256 partitions. One operation is one request.
func BenchmarkPush(b *testing.B) {
	const payload = `{"order":1234567,"customer":"north harbour","lines":["copper kettle","linen cloth","walnut board"],"note":"leave at the back door, ring twice and wait","total":129.95,"paid":true,"ship":{"city":"Bergen","street":"Nygata","no":14},"tags":["gift"]}`
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			db := pgtest.New(b)
			s := defaults()
			s.HTTP.Port, s.BindAddr, s.DrainDelay = 0, "127.0.0.1", 0
			s.Postgres.Host, s.Postgres.Port, s.Database = db.Config.Host, config.Int(db.Config.Port), db.Config.Database
			s.User, s.Password = db.Config.User, config.Secret(db.Config.Password)
			s.Dir = b.TempDir()
			listening, ended := make(chan string, 1), make(chan error, 1)
			logs := newLines()
			env := daemon.Env{Service: "ingest", Version: "bench", Logger: slog.New(logs)}
			go func() { ended <- serve(b.Context(), env, s, func(url string) { listening <- url }) }()
			url := <-listening
			logs.await(b, "schema is current")
			transport := &http.Transport{MaxIdleConnsPerHost: 64}
			client := &http.Client{Transport: transport}
			b.Cleanup(func() {
				transport.CloseIdleConnections()
				if err := <-ended; err != nil {
					b.Error(err)
				}
			})

			var requests atomic.Int64
			b.SetParallelism(32) // times the processors
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					partition := requests.Add(1) % 256
					var body strings.Builder
					body.WriteString(`{"items":[`)
					for i := range batch {
						if i > 0 {
							body.WriteByte(',')
						}
						fmt.Fprintf(&body, `{"queue":"orders","partition":"%d","transactionId":"%s","payload":%s}`, partition, queue.NewID(), payload)
					}
					body.WriteString(`]}`)
					response, err := client.Post(url+"/api/v1/push", "application/json", strings.NewReader(body.String()))
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
					if response.StatusCode != http.StatusCreated {
						b.Error(response.Status)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}
