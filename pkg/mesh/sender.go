package mesh

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
)

// sender is the one goroutine that publishes and subscribes, so that everything this process says leaves in one order:
// a heartbeat tells the numbers of all that went before it.
type sender struct {
	*Mesh
	conn       *nats.Conn
	in         chan *nats.Msg
	subs       map[int]*nats.Subscription
	subscribed bucketSet
	frame      []byte
	last       beat
}

// run sends whatever came together since the last round, at once; under load a round takes as long as the node needs to
// take it, and that is what batches.
func (s *sender) run(ctx context.Context) error {
	pace := time.NewTicker(s.o.Settings.Heartbeat.Millis())
	defer pace.Stop()
	for {
		s.round()
		select {
		case <-s.wake:
		case <-pace.C:
			s.beat.Store(true)
		case <-ctx.Done():
			s.leave()
			return context.Cause(ctx)
		}
	}
}

func (s *sender) round() {
	s.listen()
	s.publishBatch(s.pending.take())
	if s.beat.Swap(false) {
		s.publishBeat(false)
	}
	if s.Mesh.ask.Swap(false) {
		s.publish(s.subjects.asks, appendHeader(s.frame[:0], header{kind: kindAsk, boot: s.boot}))
	}
}

// listen subscribes to what is wanted now. Peers are asked for a heartbeat after that: its numbers tell what was missed.
func (s *sender) listen() {
	wanted := s.interest.wanted()
	if wanted == s.subscribed {
		return
	}
	for bucket := range buckets {
		switch {
		case wanted.has(bucket) && !s.subscribed.has(bucket):
			sub, err := s.conn.ChanSubscribe(s.subjects.hints[bucket], s.in)
			if err != nil {
				s.logger.Debug("subscribe", "err", err)
				continue // the session is over
			}
			s.subs[bucket] = sub
			s.subscribed.add(bucket)
			s.Mesh.ask.Store(true)
		case !wanted.has(bucket) && s.subscribed.has(bucket):
			if err := s.subs[bucket].Unsubscribe(); err != nil {
				s.logger.Debug("unsubscribe", "err", err)
			}
			delete(s.subs, bucket)
			s.subscribed.remove(bucket)
		}
	}
	s.beat.Store(true) // tells what is watched
}

func (s *sender) publishBatch(b batch) {
	for bucket := range sequences {
		if b.skipped.has(bucket) {
			s.sequence[bucket]++ // the hole that receivers notice
		}
	}
	for key, cursors := range b.queues {
		bucket := bucketOf(key.tenant, key.queue)
		for len(cursors) > 0 {
			before := len(cursors)
			frame := appendCursors(s.numbered(kindHints, bucket), key, cursors)
			s.count(s.publish(s.subjects.hints[bucket], frame), before-len(cursors))
		}
	}
	for key, deleted := range b.configs {
		frame := appendConfig(s.numbered(kindConfig, configBucket), key, deleted)
		s.count(s.publish(s.subjects.configs, frame), 1)
	}
}

// numbered is the start of a message that takes the next number of its bucket.
func (s *sender) numbered(kind byte, bucket int) []byte {
	s.sequence[bucket]++
	return appendHeader(s.frame[:0], header{kind: kind, boot: s.boot, bucket: bucket, seq: s.sequence[bucket]})
}

func (s *sender) count(sent bool, n int) {
	if sent {
		s.counters.sent.Add(int64(n))
	} else {
		s.counters.dropped.Add(int64(n))
	}
}

func (s *sender) publishBeat(leaving bool) {
	b := &s.last
	b.ID, b.Role, b.Version, b.Address, b.Pool = s.id, s.o.Role, s.o.Version, s.address(), s.o.PoolSize
	if s.o.Fingerprint != nil {
		b.Schema = s.o.Fingerprint()
	}
	if s.o.Timeline != nil {
		b.Timeline = s.o.Timeline()
	}
	b.Started, b.Draining, b.Leaving, b.Switches = s.started.UnixMilli(), s.draining.Load(), leaving, s.switches.all()
	b.sequence, b.watches = s.sequence, s.subscribed
	frame, err := appendBeat(appendHeader(s.frame[:0], header{kind: kindBeat, boot: s.boot}), b)
	if err != nil {
		s.logger.Error("heartbeat", "err", err)
		return
	}
	s.publish(s.subjects.beats, frame)
}

// publish hands a message to the connection; false: it is cut.
func (s *sender) publish(subject string, frame []byte) bool {
	s.frame = frame // keeps the room that it grew to
	if s.sealer != nil {
		frame = s.sealer.seal(frame)
	}
	if err := s.conn.Publish(subject, frame); err != nil {
		s.logger.Debug("publish", "err", err)
		return false
	}
	return true
}

// leave says good-bye, so that nobody reports a process that was told to stop as down.
func (s *sender) leave() {
	s.publishBatch(s.pending.take())
	s.publishBeat(true)
	if err := s.conn.FlushTimeout(farewell); err != nil {
		s.logger.Debug("leave", "err", err)
	}
}
