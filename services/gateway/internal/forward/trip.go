package forward

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// trip is one request on its way. It lives in the goroutine of Serve.
type trip struct {
	f       *Forwarder
	r       *http.Request
	t       Target
	q       *request
	tried   []*address
	again   bool // it has been sent a second time
	outcome Outcome
}

// run tries addresses until one has answered or the request cannot be sent again.
func (t *trip) run(w http.ResponseWriter) error {
	u := t.f.upstreams[t.t.Role]
	if u == nil {
		return &UnreachableError{Role: t.t.Role}
	}
	for {
		if t.t.Pop && t.f.draining.Load() {
			return ErrDrained
		}
		leg, err := t.open(u)
		if err != nil {
			return err
		}
		if t.t.Pop && t.f.draining.Load() {
			leg.a.interrupt(leg.c, t.f.options.HangUpGrace) // Drain may have passed by before this one was there
		}
		answer, err := leg.exchange(w)
		if err != nil {
			leg.end(false)
			if again, err := t.lost(u, leg, err); !again {
				return err
			}
			continue
		}
		keep, err := leg.relay(w, answer)
		leg.end(keep)
		return err
	}
}

// lost judges an exchange that brought no answer.
func (t *trip) lost(u *upstream, l *leg, err error) (again bool, _ error) {
	var body *BodyError
	switch {
	case t.r.Context().Err() != nil:
		return false, ErrClientGone
	case errors.As(err, &body):
		return false, err
	case t.t.Pop && t.f.draining.Load() && l.a.wasInterrupted(l.c):
		return false, ErrDrained
	}
	u.kick() // a process that ends connections may be ending
	if t.t.Repeatable && t.q.rest == nil && !t.again {
		t.again = true
		if l.c.reused { // most likely it was the connection, not the process
			return true, nil
		}
		t.tried = append(t.tried, l.a)
		return u.pick(nil, t.tried) != nil, &LostError{Role: t.t.Role, Err: err}
	}
	return false, &LostError{Role: t.t.Role, Err: err}
}

// open finds an address, connects and sends what is in memory.
func (t *trip) open(u *upstream) (*leg, error) {
	client, deadline := t.r.Context(), time.Now().Add(t.f.options.OpenTimeout)
	var pin *Pin
	if t.t.Sticky {
		pin = pinOf(client)
	}
	unreachable := &UnreachableError{Role: t.t.Role}
	for client.Err() == nil && time.Now().Before(deadline) {
		a := u.pick(pin, t.tried)
		if a == nil {
			break
		}
		l, err := t.try(u, a, deadline)
		var lost *LostError
		if err == nil || errors.As(err, &lost) {
			return l, err
		}
		unreachable.Err = err
		t.tried = append(t.tried, a)
	}
	if client.Err() != nil {
		return nil, ErrClientGone
	}
	return nil, unreachable
}

// try sends the request to one address: on a kept connection, and when that does not take a byte on a new one. A
// LostError says that some bytes went; with any other error none did.
func (t *trip) try(u *upstream, a *address, deadline time.Time) (*leg, error) {
	t.outcome.Address = a.name
	t.outcome.Tries++
	client := t.r.Context()
	for fresh := false; ; fresh = true {
		l, err := t.connect(a, deadline, fresh)
		if err != nil {
			if client.Err() == nil && !ours(err) {
				u.turn(a, down, err.Error())
			}
			return nil, err
		}
		err = l.c.send(t.q)
		if err == nil {
			return l, nil
		}
		l.end(false)
		switch {
		case l.c.sent > 0:
			u.kick()
			return nil, &LostError{Role: u.role, Err: err}
		case !l.c.reused || client.Err() != nil:
			return nil, err
		}
	}
}

// leg is a request on a connection, sent as far as it was in memory.
type leg struct {
	t       *trip
	a       *address
	c       *conn
	unwatch func() bool // ends the watch on the client; false when it has struck
	rest    chan error  // of the goroutine that sends the rest; nil without one
	early   bool        // the answer came before the rest was sent
}

// connect begins a leg. From here on the exchange is interrupted when the client goes.
func (t *trip) connect(a *address, deadline time.Time, fresh bool) (*leg, error) {
	client, o := t.r.Context(), t.f.options
	dialer := newDialer(o.DialTimeout)
	dialer.Deadline = deadline
	c, err := a.connect(client, dialer, fresh, exchange{pop: t.t.Pop})
	if err != nil {
		return nil, err
	}
	a.inFlight.Add(1)
	return &leg{t: t, a: a, c: c, unwatch: context.AfterFunc(client, func() { a.interrupt(c, o.HangUpGrace) })}, nil
}

// end gives the connection back.
func (l *leg) end(keep bool) {
	quiet := l.unwatch()
	l.a.inFlight.Add(-1)
	l.a.release(l.c, keep && quiet)
}

// exchange sends the rest of the body, if there is one, and waits for the head of the answer.
func (l *leg) exchange(w http.ResponseWriter) (*http.Response, error) {
	if l.t.q.rest == nil {
		return l.c.receive(l.t.r)
	}
	// The answer may begin before the body has ended: a refusal does. Reading both sides at once needs the server's leave.
	if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
		return nil, err
	}
	l.rest = make(chan error, 1)
	go func() {
		err := l.c.sendRest(l.t.q)
		var body *BodyError
		if errors.As(err, &body) {
			// The process waits for bytes that will not come. Nothing but its connection can tell it.
			l.a.cutOne(l.c)
		}
		l.rest <- err
	}()
	answer, err := l.c.receive(l.t.r)
	if err != nil {
		if sending := l.stopSending(w); sending != nil {
			var body *BodyError
			if errors.As(sending, &body) {
				err = sending
			}
		}
		return nil, err
	}
	select {
	case err := <-l.rest:
		l.rest = nil
		l.early = err != nil
	case <-time.After(sentGrace):
		l.early = true
	}
	return answer, nil
}

// sentGrace is how long the sender of a body may take to notice that it is done, once the answer has begun. An answer
// after which it still sends came before the body's end.
const sentGrace = 50 * time.Millisecond

// stopSending ends the goroutine that sends the rest, and returns what it met. The client's connection cannot carry
// another request after it.
func (l *leg) stopSending(w http.ResponseWriter) error {
	if l.rest == nil {
		return nil
	}
	l.a.cutOne(l.c) // enough for a sender that writes
	control := http.NewResponseController(w)
	again := time.NewTicker(unblockEvery)
	defer again.Stop()
	for {
		select {
		case err := <-l.rest:
			l.rest = nil
			// The server reads on for a while before it closes: a close with unread bytes would reset the connection, and the
			// client would lose the answer.
			_ = control.SetReadDeadline(time.Now().Add(lingerFor))
			return err
		case <-again.C:
			// It waits for the client's next bytes. Whoever bounds the client's patience by the same deadline may move it once
			// more before that wait begins, hence the loop.
			_ = control.SetReadDeadline(time.Unix(1, 0)) // only fails on a connection that is closed
		}
	}
}

const (
	// unblockEvery is the pace at which a sender that waits for its client is told to stop.
	unblockEvery = 20 * time.Millisecond
	// lingerFor bounds the reading of a body that nobody wants.
	lingerFor = 500 * time.Millisecond
)
