package mesh_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"queen.internal/pkg/config"
	"queen.internal/pkg/logging"
	"queen.internal/pkg/mesh"
	"queen.internal/pkg/meshtest"
)

// childSettings holds the settings of a member that is a process of its own.
const childSettings = "QUEEN_TEST_MESH_MEMBER"

func TestMain(m *testing.M) {
	if text := os.Getenv(childSettings); text != "" {
		os.Exit(beMember(text))
	}
	goleak.VerifyTestMain(m)
}

// beMember takes part until SIGTERM. Every hint of the queue "ping" is answered with the same of "pong".
func beMember(text string) int {
	var s config.Mesh
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	// Secrets do not travel in JSON: their masks do.
	s.SyncSecret, s.MeshURL, s.Credentials, s.TLSKey = childSecret, "", "", ""
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	m, err := mesh.New(mesh.Options{
		Settings: s, Role: "deliver", Version: "test", Host: "127.0.0.1", Logger: logging.New(os.Stderr, logging.Settings{}),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	m.OnHints(func(_ string, hints []mesh.Hint) {
		for _, h := range hints {
			if h.Queue == "ping" {
				h.Queue = "pong"
				m.Announce(h)
			}
		}
	})
	m.Watch(tenant, "ping")
	if err := m.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

const childSecret = "a secret that is long enough to be one"

// process is a member that can be killed.
type process struct {
	cmd *exec.Cmd
	log *log
}

func spawn(t testing.TB, s config.Mesh) *process {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(exe), log: newLog()}
	p.cmd.Env = append(os.Environ(), childSettings+"="+string(text))
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// kill is as sudden as a process can end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()         // says that it was killed, or that it was waited for
}

// Three nodes, one killed: both others say so after the threshold and not before, and say when it is back.
func TestAKilledNodeIsReportedDownAndRecovered(t *testing.T) {
	t.Parallel()
	ports := freePorts(t, 3)
	a := newMember(t, settings("a", ports[0], ports...), "ingest").start(t)
	b := newMember(t, settings("b", ports[1], ports...), "deliver").start(t)
	c := spawn(t, settings("c", ports[2], ports...))
	for _, m := range []*member{a, b} {
		m.log.await(t, "peer joined peer=c-deliver")
	}
	c.log.await(t, "peer joined peer=a-ingest")
	c.log.await(t, "peer joined peer=b-deliver")
	c.kill()
	for _, m := range []*member{a, b} {
		m.log.await(t, "WARN mesh: peer down peer=c-deliver threshold_ms=5000")
		if silent := time.Since(m.lastSeen("c-deliver")); silent < 5*time.Second {
			t.Errorf("%s reports it after %s", m.ID(), silent)
		}
		if s := m.stats(t); s.Alive != 1 || s.Dead != 1 {
			t.Errorf("%+v", s)
		}
	}
	spawn(t, settings("c", ports[2], ports...))
	for _, m := range []*member{a, b} {
		m.log.await(t, "INFO mesh: peer recovered peer=c-deliver")
		for _, line := range []string{"peer down", "peer recovered"} {
			if n := strings.Count(m.log.String(), line); n != 1 {
				t.Errorf("%d lines %q:\n%s", n, line, m.log)
			}
		}
	}
	if s := a.stats(t); s.Alive != 2 || s.Dead != 0 {
		t.Errorf("%+v", s)
	}
}

// A restart that is faster than the threshold is no transition, but what the new boot says is heard and the old one's
// numbers are forgotten.
func TestAQuickRestartAfterAKillIsAGapAndNoTransition(t *testing.T) {
	t.Parallel()
	ports := freePorts(t, 2)
	a := newMember(t, settings("a", ports[0], ports...), "ingest").start(t)
	a.Watch(tenant, "pong")
	c := spawn(t, settings("c", ports[1], ports...))
	ping := func(partition int64) {
		t.Helper()
		a.awaitWatch(t, "c-deliver", "ping")
		for {
			a.Announce(mesh.Hint{Tenant: tenant, Queue: "ping", Partition: partition})
			select {
			case h := <-a.hints:
				if h.Partition == partition {
					return
				}
			case <-time.After(100 * time.Millisecond): // it may have been lost; hints are
			}
		}
	}
	ping(1)
	next(t, "gap of the first boot", a.gaps)
	c.kill()
	spawn(t, settings("c", ports[1], ports...))
	if gap := next(t, "gap of the second boot", a.gaps); gap.Cause != mesh.CauseNewPeer || gap.Peer != "c-deliver" {
		t.Errorf("%+v", gap)
	}
	ping(2)
	if text := a.log.String(); strings.Contains(text, "peer down") || strings.Contains(text, "peer recovered") {
		t.Error(text)
	}
}

// The whole mesh dies and comes back: announcing goes on, and everybody finds everybody.
func TestTheWholeMeshMayGoAndComeBack(t *testing.T) {
	t.Parallel()
	ports := freePorts(t, 3)
	between := meshtest.NewRelay(t, fmt.Sprintf("127.0.0.1:%d", ports[1]))
	s := settings("a", ports[0], between.Port())
	s.Heartbeat, s.Dead = 50, 500
	a := newMember(t, s, "ingest").start(t)
	s = settings("b", ports[1])
	s.Heartbeat, s.Dead = 50, 500
	b := newMember(t, s, "deliver").start(t)
	b.log.await(t, "peer joined peer=a-ingest")
	b.Watch(tenant, "orders")
	a.awaitWatch(t, b.ID(), "orders")
	for round := range 3 {
		between.Part()
		a.log.awaitCount(t, "peer down peer=b-deliver", round+1)
		b.log.awaitCount(t, "peer down peer=a-ingest", round+1)
		for i := range int64(100_000) {
			a.Announce(mesh.Hint{Tenant: tenant, Queue: "orders", Partition: i + 1})
		}
		between.Join()
		a.log.awaitCount(t, "peer recovered peer=b-deliver", round+1)
		b.log.awaitCount(t, "peer recovered peer=a-ingest", round+1)
		a.awaitWatch(t, b.ID(), "orders")
		want := int64(1_000_000 + round)
		a.Announce(mesh.Hint{Tenant: tenant, Queue: "orders", Partition: want})
		for next(t, "hint", b.hints).Partition != want {
			continue
		}
	}
	var causes []mesh.Cause
	for len(b.gaps) > 0 {
		causes = append(causes, (<-b.gaps).Cause)
	}
	if len(causes) < 7 { // each round one for down and one for back, and the first time
		t.Errorf("gaps %v", causes)
	}
}
