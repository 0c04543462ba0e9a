package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"queen.internal/pkg/appendlog"
	"queen.internal/pkg/config"
	"queen.internal/pkg/mesh"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/store/log"
)

// neverLook switches the backstop off: what wakes a poll is news.
func neverLook(s *settings) { s.WaitInitial, s.WaitMax = 3_600_000, 3_600_000 }

// cell is two delivers and somebody who appends, on one database and one mesh, without a backstop.
type cell struct {
	*bundle
	other *process
	mesh  *mesh.Mesh // the appender's
	leave func()     // ends the appender's mesh; it may go on appending
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return port
}

func newCell(t *testing.T, adjust func(*settings)) *cell {
	t.Helper()
	database := pgtest.New(t)
	ports := []int{freePort(t), freePort(t), freePort(t)}
	var peers config.List
	for _, port := range ports {
		peers = append(peers, "127.0.0.1:"+strconv.Itoa(port))
	}
	join := func(m *config.Mesh, place int) {
		*m = config.NewMesh()
		m.MeshPort, m.MeshPeers, m.SyncSecret, m.ServerID = config.Int(ports[place]), peers, "a secret", fmt.Sprint("node-", place)
		m.MeshBind, m.Heartbeat = "127.0.0.1", 100
	}
	c := &cell{bundle: &bundle{t: t, database: database}}
	c.process = start(t, database.Config, func(s *settings) { join(&s.Mesh, 0); adjust(s) })
	c.other = start(t, database.Config, func(s *settings) { join(&s.Mesh, 1); adjust(s) })

	o := mesh.Options{Role: "ingest", Version: "test", Host: "127.0.0.1", Logger: slog.New(slog.DiscardHandler)}
	join(&o.Settings, 2)
	var err error
	if c.mesh, err = mesh.New(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.mesh.Run(ctx); err != nil {
			t.Errorf("mesh: %v", err)
		}
	})
	c.leave = func() { cancel(); running.Wait() }
	t.Cleanup(c.leave)
	c.appender = appendlog.New(log.New(database.Pool), func(a []appendlog.Announcement) { c.mesh.Announce(appendlog.Hints(a)...) })
	return c
}

func TestMesh_AnAppendElsewhereWakesEveryKindOfPoll(t *testing.T) {
	t.Parallel()
	c := newCell(t, neverLook)
	c.push("q", "p", "0")
	c.mustAck("", c.mustPop(http.StatusOK, "/queue/q").items("ok")...)
	for name, path := range map[string]string{
		"of a queue": "/queue/q?", "of a partition": "/queue/q/partition/p?", "of queues with a namespace": "?namespace=q&",
	} {
		for _, p := range []*process{c.process, c.other} {
			at := &bundle{t: t, database: c.database, process: p}
			answer := at.later(path + "wait=true&timeout=60000&autoAck=true")
			at.parked(1)
			id := fmt.Sprint(name, " ", p.url)
			c.push("q", "p", id)
			if got := answer(); got.ids() != id {
				t.Errorf("a poll %s answers %d %s", name, got.Status, got.Raw)
			}
			at.parked(0)
		}
	}
}

// Nobody listens to what happens to a queue before there is one, so its coming itself is told.
func TestMesh_AQueueThatComesToBeElsewhereWakesPollsOfItsNamespace(t *testing.T) {
	t.Parallel()
	c := newCell(t, neverLook)
	c.appender.OnQueue(func(tenant uuid.UUID, queueName string) { c.mesh.AnnounceConfig(tenant, queueName, false) })
	for name, create := range map[string]func(queueName string){
		"a push": func(queueName string) { c.push(queueName, "p", queueName) },
		"a push to a queue that a pop has made": func(queueName string) {
			c.mustPop(http.StatusNoContent, inQueue(queueName)+"?consumerGroup=another")
			c.push(queueName, "p", queueName)
		},
		"a transaction": func(queueName string) {
			body := fmt.Sprintf(`{"operations":[{"type":"push","items":[{"queue":%q,"transactionId":%q,"payload":1}]}]}`, queueName, queueName)
			if status, _, answer, err := c.do(t.Context(), http.MethodPost, "/api/v1/transaction", body); err != nil || status != http.StatusOK {
				t.Fatalf("%d %s, %v", status, answer, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i, p := range []*process{c.process, c.other} {
				at := &bundle{t: t, database: c.database, process: p}
				namespace := fmt.Sprint("n", i, strings.ReplaceAll(name, " ", "-"))
				answer := at.later("?namespace=" + namespace + "&consumerGroup=g&wait=true&timeout=60000&autoAck=true")
				at.parked(1)
				create(namespace + ".made")
				if got := answer(); got.ids() != namespace+".made" {
					t.Errorf("%d: %d %s", i, got.Status, got.Raw)
				}
				at.parked(0)
			}
		})
	}
}

func TestMesh_WhatIsFreedElsewhereWakesAPoll(t *testing.T) {
	t.Parallel()
	c := newCell(t, func(s *settings) { neverLook(s); s.Sweep = 0 })
	there := &bundle{t: t, database: c.database, process: c.other}
	told := func(_ string, f freeing) bool { return !f.silent }
	each(t, c.bundle, there, told, awaited)
}

// Under load the appender's mesh ends, for good: everything is delivered all the same.
func TestMesh_ItsEndUnderLoadCostsOnlyTime(t *testing.T) {
	t.Parallel()
	c := newCell(t, func(*settings) {})
	const messages, consumers = 200, 4
	var delivered sync.Map
	var left atomic.Int64
	left.Store(messages)
	var consuming sync.WaitGroup
	for n := range consumers {
		p := []*process{c.process, c.other}[n%2]
		consuming.Go(func() {
			for left.Load() > 0 {
				got, err := p.pop("/queue/q?wait=true&timeout=2000&batch=1&autoAck=true")
				if err != nil {
					t.Error(err)
					return
				}
				for _, m := range got.Messages {
					if _, twice := delivered.LoadOrStore(m.TransactionID, true); twice {
						t.Errorf("%s is delivered twice", m.TransactionID)
					}
					left.Add(-1)
				}
			}
		})
	}
	for i := range messages {
		if i == messages/2 {
			c.leave()
		}
		c.push("q", fmt.Sprint("p", i%20), fmt.Sprint(i))
	}
	consuming.Wait()
}

func TestNotify_HasPollsLook(t *testing.T) {
	t.Parallel()
	c := newCell(t, neverLook)
	silent := &bundle{t: t, database: c.database, appender: appendlog.New(log.New(c.database.Pool), nil)}
	for _, p := range []*process{c.process, c.other} {
		at := &bundle{t: t, database: c.database, process: p}
		answer := at.later("/queue/q?wait=true&timeout=60000&autoAck=true")
		at.parked(1)
		silent.push("q", "p", p.url) // and tells nobody
		status, _, body, err := c.do(t.Context(), http.MethodPost, "/internal/api/notify", `{"queue":"q","partition":"p"}`)
		if err != nil || status != http.StatusOK || string(body) != `{"status":"ok"}` {
			t.Fatal(status, string(body), err)
		}
		if got := answer(); got.ids() != p.url {
			t.Errorf("a poll answers %d %s", got.Status, got.Raw)
		}
	}
	for _, body := range []string{`{}`, `{"queue":7}`, `{"queue":""}`, `[`, ``} {
		if status, _, text, err := c.do(t.Context(), http.MethodPost, "/internal/api/notify", body); err != nil || status != http.StatusBadRequest {
			t.Errorf("%s is answered %d %s (%v)", body, status, text, err)
		}
	}
}
