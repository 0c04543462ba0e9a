package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/config"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/segment"
	"queen.internal/pkg/store/log"
)

const benchPartitions = 256

// BenchmarkPopAck consumes what is stored: each round is one message, popped and acked over HTTP. Warm, another group has done
// so before, so that the segments are in memory. Whether commits cost what they cost in production depends on the server that
// QUEEN_TEST_PG names.
func BenchmarkPopAck(b *testing.B) {
	for _, c := range []struct {
		batch, consumers, stored int
		warm                     bool
	}{{1, 64, 1, false}, {1, 64, 1, true}, {1, 64, 100, false}, {100, 16, 100, false}, {100, 16, 100, true}} {
		b.Run(fmt.Sprintf("batch=%d/consumers=%d/segments=%d/warm=%v", c.batch, c.consumers, c.stored, c.warm), func(b *testing.B) {
			database := pgtest.New(b)
			fill(b, appendlog.New(log.New(database.Pool), nil), b.N, c.stored)
			p := start(b, database.Config, func(s *settings) { s.PoolSize = config.Int(defaults().PoolSize) })
			address := strings.TrimPrefix(p.url, "http://")
			if c.warm {
				consumeAll(b, address, "before", 100, 16)
			}
			b.ReportAllocs()
			b.ResetTimer()
			consumeAll(b, address, "g", c.batch, c.consumers)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

// fill stores n messages of 256 bytes of words in all partitions alike, so many a segment.
func fill(b *testing.B, appender *appendlog.Log, n, stored int) {
	b.Helper()
	words := strings.Fields("queue partition segment offset cursor lease group letter commit window tenant spool")
	made := 0
	message := func() segment.Message {
		payload := []byte(`{"text":"`)
		for i := made; len(payload) < 254; i = i*7 + 3 {
			payload = append(append(payload, words[(i&0xffff)%len(words)]...), ' ')
		}
		made++
		id := queue.NewID()
		return segment.Message{ID: id, TransactionID: id.String(), Payload: append(payload[:254], `"}`...)}
	}
	for made < n {
		var groups []appendlog.Group
		for partition := 0; partition < benchPartitions && made < n; partition++ {
			g := appendlog.Group{Key: appendlog.Key{Tenant: queue.DefaultTenant, Queue: "q", Partition: strconv.Itoa(partition)}}
			for range min(stored, n-made) {
				g.Messages = append(g.Messages, message())
			}
			groups = append(groups, g)
		}
		for _, result := range appender.Append(b.Context(), groups) {
			if result.Err != nil {
				b.Fatal(result.Err)
			}
		}
	}
}

// consumeAll has a group consume the b.N messages there are.
func consumeAll(b *testing.B, address, group string, batch, number int) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	var consumers sync.WaitGroup
	for range number {
		consumers.Go(func() { consume(b, address, group, batch, &left) })
	}
	consumers.Wait()
}

// consume pops and acks over one connection, with as little work of its own as can be, until nothing is left.
func consume(b *testing.B, address, group string, batch int, left *atomic.Int64) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Error(err)
		return
	}
	defer func() { _ = conn.Close() }()
	c := &rawClient{conn: conn, in: textproto.NewReader(bufio.NewReaderSize(conn, 64<<10))}
	pop := fmt.Appendf(nil, "GET /api/v1/pop/queue/q?batch=%d&wait=true&timeout=1000&consumerGroup=%s&subscriptionMode=all HTTP/1.1\r\nHost: x\r\n\r\n", batch, group)
	for left.Load() > 0 {
		status, body, err := c.do(pop)
		switch {
		case err != nil || status != "200" && status != "204":
			b.Errorf("pop: %s %s %v", status, body, err)
			return
		case status == "204":
			continue
		}
		ack, n := ackOf(group, body)
		if status, body, err = c.do(ack); err != nil || status != "200" || bytes.Contains(body, []byte(`"success":false`)) {
			b.Errorf("ack: %s %s %v", status, body, err)
			return
		}
		left.Add(int64(-n))
	}
}

// ackOf is the request that acks all of a pop's answer.
func ackOf(group string, body []byte) (request []byte, n int) {
	ack := fmt.Appendf(nil, `{"consumerGroup":%q,"acknowledgments":[`, group)
	for _, m := range bytes.Split(body, []byte(`{"id":"`))[1:] {
		if n > 0 {
			ack = append(ack, ',')
		}
		ack = fmt.Appendf(ack, `{"transactionId":"%s","partitionId":"%s","leaseId":"%s","status":"completed"}`,
			text(m, `"transactionId":"`), text(m, `"partitionId":"`), text(m, `"leaseId":"`))
		n++
	}
	ack = append(ack, `]}`...)
	return append(fmt.Appendf(nil, "POST /api/v1/ack/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(ack)), ack...), n
}

// text is the JSON string that follows a key.
func text(m []byte, key string) []byte {
	_, rest, _ := bytes.Cut(m, []byte(key))
	value, _, _ := bytes.Cut(rest, []byte(`"`))
	return value
}

// rawClient is a connection on which one request follows the other.
type rawClient struct {
	conn net.Conn
	in   *textproto.Reader
	body []byte
}

func (c *rawClient) do(request []byte) (status string, body []byte, err error) {
	if _, err = c.conn.Write(request); err != nil {
		return "", nil, err
	}
	line, err := c.in.ReadLineBytes()
	if err != nil {
		return "", nil, err
	}
	status, length := string(line[len("HTTP/1.1 "):][:3]), 0
	for {
		if line, err = c.in.ReadLineBytes(); err != nil || len(line) == 0 {
			break
		}
		if value, found := bytes.CutPrefix(line, []byte("Content-Length: ")); found {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return "", nil, err
			}
		}
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	body = c.body[:length]
	if err == nil {
		_, err = io.ReadFull(c.in.R, body)
	}
	return status, body, err
}
