package mesh_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"queen.internal/pkg/config"
	"queen.internal/pkg/mesh"
	"queen.internal/pkg/meshtest"
)

// through are settings of a process that uses the NATS at a port.
func through(port int, name string) config.Mesh {
	s := settings(name, 0)
	s.MeshURL = config.Secret(fmt.Sprintf("nats://127.0.0.1:%d", port))
	return s
}

// derivedKey is what the operator allows.
func derivedKey(t *testing.T) string {
	t.Helper()
	s := settings("", 0)
	s.MeshURL = "nats://127.0.0.1:1"
	key, err := mesh.ClientKey(s)
	if err != nil || !strings.HasPrefix(key, "U") {
		t.Fatalf("%q, %v", key, err)
	}
	return key
}

func TestAnExistingNATSCarriesTheSame(t *testing.T) {
	t.Parallel()
	nats := meshtest.StartNATS(t, 0, derivedKey(t))
	a := newMember(t, through(nats.Port(), "a"), "ingest").start(t)
	b := newMember(t, through(nats.Port(), "b"), "deliver").start(t)
	a.log.await(t, "mesh: started server_id=a-ingest")
	a.log.await(t, "auth=nkey")
	a.log.await(t, "peer joined peer=b-deliver")
	b.Watch(tenant, "orders")
	a.awaitWatch(t, b.ID(), "orders")
	a.Announce(mesh.Hint{Tenant: tenant, Queue: "orders", Partition: 3})
	if got := next(t, "hint", b.hints); got.Partition != 3 {
		t.Errorf("%+v", got)
	}
	// It goes and comes back. What is said meanwhile is lost and known to be.
	for len(b.gaps) > 0 {
		<-b.gaps
	}
	nats.End()
	a.until(t, "it is cut off", func() bool { return !a.stats(t).Running })
	before := a.stats(t).Dropped
	a.Announce(mesh.Hint{Tenant: tenant, Queue: "orders", Partition: 4})
	if dropped := a.stats(t).Dropped; dropped != before+1 {
		t.Errorf("%d were dropped", dropped-before)
	}
	nats.Return(t)
	for next(t, "gap", b.gaps).Cause != mesh.CauseReconnect {
		continue
	}
	a.until(t, "it is back", func() bool { return a.stats(t).Running })
	a.awaitWatch(t, b.ID(), "orders")
	for {
		a.Announce(mesh.Hint{Tenant: tenant, Queue: "orders", Partition: 5})
		select {
		case got := <-b.hints:
			if got.Partition != 5 {
				t.Errorf("%+v", got)
			}
			return
		case <-time.After(100 * time.Millisecond): // b may not listen again yet
		}
	}
}

// One that takes nothing any more, though its connections stay open, makes nobody wait: neither who announces, nor who is
// told to stop. What was said meanwhile is lost, and counted.
func TestAnExistingNATSThatHangsHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	nats := meshtest.StartNATS(t, 0, derivedKey(t))
	between := meshtest.NewRelay(t, fmt.Sprintf("127.0.0.1:%d", nats.Port()))
	a := newMember(t, through(between.Port(), "a"), "ingest").start(t)
	b := newMember(t, through(nats.Port(), "b"), "deliver").start(t)
	b.Watch(tenant, "orders")
	a.awaitWatch(t, b.ID(), "orders")
	storm := func() {
		for i := range int64(1 << 18) {
			a.Announce(mesh.Hint{Tenant: tenant, Queue: "orders", Partition: i + 1})
		}
	}
	between.Stall()
	for a.stats(t).Dropped == 0 { // until the system's buffers on the way are full
		storm()
	}
	a.until(t, "it takes the connection for lost", func() bool { return !a.stats(t).Running })
	between.Part()
	between.Join()
	a.until(t, "it is back", func() bool { return a.stats(t).Running })
	for len(b.hints) > 0 {
		<-b.hints
	}
	between.Stall()
	before := a.stats(t).Dropped
	for a.stats(t).Dropped == before {
		storm()
	}
	a.leave()
}

func TestAnExistingNATSThatComesLaterIsWaitedFor(t *testing.T) {
	t.Parallel()
	port := freePorts(t, 1)[0]
	a := newMember(t, through(port, "a"), "ingest").start(t)
	b := newMember(t, through(port, "b"), "deliver").start(t)
	a.log.await(t, "WARN mesh: connection failed, continuing with local waker only")
	meshtest.StartNATS(t, port, derivedKey(t))
	a.log.await(t, "peer joined peer=b-deliver")
	b.log.await(t, "peer joined peer=a-ingest")
}

func TestAnExistingNATSRefusesTheWrongSecret(t *testing.T) {
	t.Parallel()
	nats := meshtest.StartNATS(t, 0, derivedKey(t))
	s := through(nats.Port(), "x")
	s.SyncSecret = "another"
	x := newMember(t, s, "deliver").start(t)
	x.until(t, "it is refused", func() bool { return x.stats(t).HandshakeFailures > 0 })
	if x.stats(t).Running || strings.Contains(x.log.String(), "mesh: started") {
		t.Error(x.log)
	}
}

func TestCredentialsInsteadOfADerivedKey(t *testing.T) {
	t.Parallel()
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := key.Seed()
	if err != nil {
		t.Fatal(err)
	}
	nats := meshtest.StartNATS(t, 0, public)
	with := func(name string) config.Mesh {
		s := through(nats.Port(), name)
		s.SyncSecret, s.Credentials = "", config.Secret(seed)
		return s
	}
	a := newMember(t, with("a"), "ingest").start(t)
	newMember(t, with("b"), "deliver").start(t)
	a.log.await(t, "peer joined peer=b-deliver")
}

// tapped is what somebody else with an account there sees.
type tapped struct {
	mu   sync.Mutex
	msgs []*nats.Msg
}

func (p *tapped) take(m *nats.Msg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.msgs = append(p.msgs, m)
}

func (p *tapped) all() []*nats.Msg {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*nats.Msg(nil), p.msgs...)
}

// Others with an account on that NATS, but without the secret, read nothing and are believed nothing: not what they
// make up, nor what they say again.
func TestOthersOnAnExistingNATSReadNothingAndAreNotBelieved(t *testing.T) {
	t.Parallel()
	stranger, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := stranger.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	existing := meshtest.StartNATS(t, 0, derivedKey(t), public)
	conn, err := nats.Connect(existing.URL(), nats.Nkey(public, stranger.Sign))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	conn.SetClosedHandler(func(*nats.Conn) { close(ended) })
	defer func() { conn.Close(); <-ended }()
	seen := &tapped{}
	if _, err := conn.Subscribe(">", seen.take); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	a := newMember(t, through(existing.Port(), "a"), "ingest").start(t)
	b := newMember(t, through(existing.Port(), "b"), "deliver").start(t)
	b.Watch(tenant, "orders")
	a.awaitWatch(t, b.ID(), "orders")
	a.Announce(mesh.Hint{Tenant: tenant, Queue: "orders", Partition: 3})
	next(t, "hint", b.hints)
	a.AnnounceSwitch(mesh.Switch{Name: mesh.PopMaintenance, On: true, Version: 1})
	next(t, "switch", b.turned)
	a.until(t, "the stranger saw it", func() bool { return len(seen.all()) >= 6 })
	for _, msg := range seen.all() {
		for _, word := range []string{"orders", "a-ingest", mesh.PopMaintenance} {
			if bytes.Contains(msg.Data, []byte(word)) {
				t.Errorf("%s is readable on %s", word, msg.Subject)
			}
		}
	}
	// A member that has the account and no secret talks as one of ours does; then everything heard is said again.
	s := through(existing.Port(), "x")
	seed, err := stranger.Seed()
	if err != nil {
		t.Fatal(err)
	}
	s.SyncSecret, s.Credentials = "", config.Secret(seed)
	x := newMember(t, s, "ingest")
	x.AnnounceSwitch(mesh.Switch{Name: mesh.PushMaintenance, On: true, Version: 1000})
	x.start(t)
	b.until(t, "it is not believed", func() bool { return b.stats(t).SignatureFailures > 0 })
	for _, msg := range seen.all() {
		if err := conn.Publish(msg.Subject, msg.Data); err != nil {
			t.Fatal(err)
		}
	}
	b.until(t, "it is noticed", func() bool { return b.stats(t).Replayed > 0 })
	if len(b.turned) > 0 || len(b.Switches()) != 1 || len(b.Peers()) != 1 || len(x.Peers()) > 0 {
		t.Errorf("switches %+v, peers %+v; the stranger knows %+v", b.Switches(), b.Peers(), x.Peers())
	}
}
