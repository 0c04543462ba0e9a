package mesh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"
)

const (
	// inbox is how many messages may wait for the receiver: at most 32 MB.
	inbox = 1024
	// farewell bounds the last heartbeat of a process that leaves.
	farewell = 500 * time.Millisecond
)

// session takes part through a link until ctx ends or the link does.
func (m *Mesh) session(ctx context.Context, l *link) error {
	in := make(chan *nats.Msg, inbox)
	s := &sender{Mesh: m, conn: l.conn, in: in, subs: map[int]*nats.Subscription{}}
	for _, subject := range []string{m.subjects.beats, m.subjects.asks, m.subjects.configs} {
		if _, err := l.conn.ChanSubscribe(subject, in); err != nil {
			return fmt.Errorf("listen to %s: %w", subject, err)
		}
	}
	if l.conn.IsConnected() {
		m.pending.setOpen(true)
	}
	defer m.closePending()
	m.greet()
	work, working := errgroup.WithContext(ctx)
	work.Go(func() error { return s.run(working) })
	work.Go(func() error { return m.receive(working, l, in) })
	return work.Wait()
}

// receive handles messages one after the other, and judges who is still there.
func (m *Mesh) receive(ctx context.Context, l *link, in chan *nats.Msg) error {
	pace := max(min(m.o.Settings.Heartbeat.Millis(), m.o.Settings.Dead.Millis()/2), 10*time.Millisecond)
	look := time.NewTicker(pace)
	defer look.Stop()
	r := &receiver{Mesh: m}
	var pools budget
	if len(m.table.peers()) > 0 {
		r.tell(Gap{Cause: CauseReconnect, all: true}) // an earlier session of this process ended
	}
	for {
		select {
		case msg := <-in:
			r.handle(msg.Data)
		case <-l.changed:
			r.reconnected()
		case <-look.C:
			r.drain(in) // before judging: this process may have slept
			r.tell(m.table.expire(time.Now())...)
			pools.look(m)
		case <-l.ended:
			return errLinkEnded
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// receiver is the one goroutine that handlers are called by.
type receiver struct {
	*Mesh
	hints []Hint
}

func (r *receiver) drain(in chan *nats.Msg) {
	for range len(in) {
		r.handle((<-in).Data)
	}
}

// reconnected is an external server that was away.
func (r *receiver) reconnected() {
	r.tell(Gap{Cause: CauseReconnect, all: true})
	r.greet()
}

// greet tells who this process is and asks who else is there.
func (m *Mesh) greet() {
	m.beat.Store(true)
	m.ask.Store(true)
	m.kick()
}

func (r *receiver) tell(gaps ...Gap) {
	for _, gap := range gaps {
		r.counters.gap(gap.Cause)
		r.onGap(gap)
	}
}

// handle is one message, of whatever it may be.
func (r *receiver) handle(data []byte) {
	err := r.read(data)
	switch {
	case errors.Is(err, errForged):
		r.counters.forged.Add(1)
	case errors.Is(err, errReplayed):
		r.counters.replayed.Add(1)
	case err != nil:
		r.counters.rejected.Add(1)
	}
}

func (r *receiver) read(data []byte) (err error) {
	if r.opener != nil {
		if data, err = r.opener.open(data); err != nil {
			return err
		}
	}
	h, body, err := readHeader(data)
	if err == nil && h.boot == r.boot {
		err = errReplayed // no node sends back what we said
	}
	if err != nil {
		return err
	}
	return r.dispatch(h, body)
}

func (r *receiver) dispatch(h header, body *reader) (err error) {
	now := time.Now()
	switch h.kind {
	case kindAsk:
		r.beat.Store(true)
		r.kick()
		return nil
	case kindBeat:
		b, err := readBeat(body)
		if err != nil {
			return err
		}
		r.tell(r.table.beat(h.boot, b, r.interest.wanted(), now)...)
		r.takeSwitches(b.Switches)
		return nil
	case kindHints:
		if r.hints, err = readHints(body, h.bucket, r.hints[:0]); err != nil {
			return err
		}
		peer := r.number(h, now)
		r.counters.received.Add(int64(len(r.hints)))
		r.onHints(peer, r.hints)
		return nil
	default:
		configs, err := readConfigs(body)
		if err != nil {
			return err
		}
		peer := r.number(h, now)
		r.counters.received.Add(int64(len(configs)))
		for _, c := range configs {
			r.onConfig(peer, c)
		}
		return nil
	}
}

// number takes the sequence and returns the peer's id; empty while no heartbeat told who it is.
func (r *receiver) number(h header, now time.Time) string {
	id, known, gaps := r.table.number(h, now)
	if !known {
		r.ask.Store(true)
		r.kick()
	}
	r.tell(gaps...)
	return id
}

func (r *receiver) takeSwitches(list []Switch) {
	for _, s := range list {
		switch {
		case r.switches.offer(s):
			r.onSwitch(s)
		case r.switches.stale(s):
			r.counters.stale.Add(1)
		}
	}
}
