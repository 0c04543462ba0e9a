package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"

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

func newCell(t *testing.T) *cell {
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
	c.process = start(t, database.Config, func(s *settings) { neverLook(s); join(&s.Mesh, 0) })
	c.other = start(t, database.Config, func(s *settings) { neverLook(s); join(&s.Mesh, 1) })

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
	t.Cleanup(func() { cancel(); running.Wait() })
	c.appender = appendlog.New(log.New(database.Pool), func(a []appendlog.Announcement) { c.mesh.Announce(appendlog.Hints(a)...) })
	return c
}

func TestMesh_AnAppendElsewhereWakesEveryKindOfPoll(t *testing.T) {
	t.Parallel()
	c := newCell(t)
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

func TestMesh_WhatIsFreedElsewhereWakesAPoll(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	for name, path := range map[string]string{"of a queue": "/queue/q?", "of a partition": "/queue/q/partition/p?"} {
		c.push("q", "p", name)
		first := c.mustPop(http.StatusOK, "/queue/q?leaseSeconds=3600")
		at := &bundle{t: t, database: c.database, process: c.other}
		answer := at.later(path + "wait=true&timeout=60000&leaseSeconds=3600")
		at.parked(1)
		c.mustAck("", first.items("retry")...)
		second := answer()
		if second.ids() != name || second.Messages[0].DeliveryAttempt != 2 {
			t.Errorf("after a nack a poll %s answers %d %s", name, second.Status, second.Raw)
		}

		third := c.later(path + "wait=true&timeout=60000&leaseSeconds=3600")
		c.parked(1)
		if status, _, body, err := c.other.do(t.Context(), http.MethodPost, "/internal/api/lease/"+second.LeaseID+"/release", ""); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s %v", status, body, err)
		}
		got := third()
		if got.ids() != name {
			t.Errorf("after a give-back a poll %s answers %d %s", name, got.Status, got.Raw)
		}
		c.mustAck("", got.items("ok")...)
	}
}
