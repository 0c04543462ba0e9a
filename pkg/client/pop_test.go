package client_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/client"
)

func TestPop(t *testing.T) {
	t.Parallel()

	t.Run("AddressesNamesAndParameters", func(t *testing.T) {
		t.Parallel()
		empty, odd := "", "a/b +%ü"
		for want, request := range map[string]client.PopRequest{
			"/api/v1/pop/queue/q": {Queue: "q"},
			"/api/v1/pop/queue/a%2Fb%20+%25%C3%BC/partition/a%2Fb%20+%25%C3%BC": {Queue: odd, Partition: &odd},
			"/api/v1/pop/queue/q/partition/":                                    {Queue: "q", Partition: &empty},
			"/api/v1/pop?namespace=n&task=t":                                    {Namespace: "n", Task: "t"},
			"/api/v1/pop/queue/q?autoAck=true&batch=7&consumerGroup=g+h&leaseSeconds=2&partitions=3&subscriptionFrom=now&subscriptionMode=all&timeout=1500&wait=true": {
				Queue: "q", Group: "g h", Batch: 7, Partitions: 3, Lease: 2500 * time.Millisecond, AutoAck: true, Mode: "all",
				From: "now", Wait: 1500 * time.Millisecond,
			},
		} {
			cl, cell := setup(t, answer(204, ""))
			batch, err := cl.Pop(t.Context(), request)
			if err != nil || len(batch.Messages) != 0 {
				t.Errorf("%+v: batch %+v, error %v; want nothing", request, batch, err)
			}
			got := cell.asked()[0]
			if got.uri != "/cells/one"+want || got.method != "GET" || got.body != "" {
				t.Errorf("asked %s %s with body %q, want GET %s without", got.method, got.uri, got.body, want)
			}
		}
	})

	t.Run("DeliversPayloadsByteForByte", func(t *testing.T) {
		t.Parallel()
		payload := `{"n": 12345678901234567890, "a":"<\u0000\ud800>"  }`
		cl, _ := setup(t, answer(200, `{"success":true,"queue":"q","partition":"p","partitionId":"P","leaseId":"L",`+
			`"consumerGroup":"g","messages":[{"id":"m","transactionId":"t","traceId":null,"data":`+payload+`,"producerSub":null,`+
			`"createdAt":"2026-08-01T10:00:00.123456Z","partitionId":"P","partition":"p","leaseId":"L","consumerGroup":"g",`+
			`"deliveryAttempt":2}],"partitionsClaimed":1}`))
		batch, err := cl.Pop(t.Context(), client.PopRequest{Queue: "q", Group: "g"})
		if err != nil {
			t.Fatal(err)
		}
		want := client.Batch{
			Queue: "q", Partition: "p", PartitionID: "P", LeaseID: "L", Group: "g", PartitionsClaimed: 1,
			Messages: []client.Message{{
				ID: "m", TransactionID: "t", Data: []byte(payload), CreatedAt: "2026-08-01T10:00:00.123456Z",
				PartitionID: "P", Partition: "p", LeaseID: "L", Group: "g", DeliveryAttempt: 2,
			}},
		}
		if diff := cmp.Diff(want, batch); diff != "" {
			t.Error(diff)
		}
	})

	t.Run("IsNotRepeatedOnA503", func(t *testing.T) {
		t.Parallel()
		cl, cell := setup(t, answer(503, `{"error":"full"}`), answer(204, ""))
		_, err := cl.Pop(t.Context(), client.PopRequest{Queue: "q"})
		if !client.Transient(err) || len(cell.asked()) != 1 {
			t.Errorf("error %v after %d requests, want a transient one after 1", err, len(cell.asked()))
		}
	})
}

// A server that takes a second request on a kept connection and dies leaves net/http with a GET it would send again.
func TestPopIsNotRepeatedByTheTransport(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int32
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			reader := bufio.NewReader(conn)
			for range 2 {
				if _, err := http.ReadRequest(reader); err != nil {
					break
				}
				if requests.Add(1)%2 == 1 {
					_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
				}
			}
			_ = conn.Close()
		}
	}()
	cl, err := client.New(client.Options{URL: "http://" + listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		cl.Close()
		_ = listener.Close()
		<-done
	}()
	if _, err := cl.Pop(t.Context(), client.PopRequest{Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	_, err = cl.Pop(t.Context(), client.PopRequest{Queue: "q"})
	var transport *client.TransportError
	if !errors.As(err, &transport) || requests.Load() != 2 {
		t.Errorf("error %v after %d requests, want a transport error after 2", err, requests.Load())
	}
}

func TestCallsShareOneConnection(t *testing.T) {
	t.Parallel()
	var opened atomic.Int32
	server := httptest.NewUnstartedServer(answer(400, `{"error":"no"}`))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	cl, err := client.New(client.Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for range 5 {
		if _, err := cl.Pop(t.Context(), client.PopRequest{Queue: "q"}); err == nil {
			t.Fatal("no error")
		}
	}
	if opened.Load() != 1 {
		t.Errorf("%d connections for calls in sequence, want 1", opened.Load())
	}
}
