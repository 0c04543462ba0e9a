package main

import (
	"fmt"
	"net/http"
	"testing"
)

// kinds are the polls that may wait for a partition p, by the queue's name.
var kinds = map[string]string{"queue": "/queue/%s?", "partition": "/queue/%s/partition/p?", "namespace": "?namespace=%[1]s&"}

// freeing is something that gives a group work in a partition whose message 0 it had leased, and what it is work on.
// name is the group's name, and the queue's.
type freeing struct {
	before func(b *bundle, name string, first popped) // the other deliver looks
	do     func(b *bundle, name string, first popped)
	want   string
	gone   bool // the other deliver must find out that the group is another one, or that a pause is over
	timed  bool // it takes a while
	silent bool // nobody could tell
}

func nothing(*bundle, string, popped) {}

func finish(b *bundle, name string, first popped) { b.mustAck(name, first.items("completed")...) }

func nack(b *bundle, name string, first popped) { b.mustAck(name, first.items("retry")...) }

func more(b *bundle, name string, _ popped) { b.push(name, "p", "1") }

// told is a request that is answered with 200.
func told(method, path, body string) func(*bundle, string, popped) {
	return func(b *bundle, name string, first popped) {
		b.t.Helper()
		status, _, text, err := b.process.do(b.t.Context(), method, fmt.Sprintf(path, name, first.LeaseID), body)
		if err != nil || status != http.StatusOK {
			b.t.Fatalf("%d %s (%v)", status, text, err)
		}
	}
}

// both does one thing after the other.
func both(one, other func(*bundle, string, popped)) func(*bundle, string, popped) {
	return func(b *bundle, name string, first popped) { one(b, name, first); other(b, name, first) }
}

const bygone = `{"timestamp":"2001-01-01"}`

var freeings = map[string]freeing{
	"a push":               {before: finish, do: more, want: "1"},
	"an ack":               {before: more, do: finish, want: "1"},
	"an ack in a bundle":   {before: more, do: bundled, want: "1"},
	"a nack":               {before: nothing, do: nack, want: "0"},
	"a nack with a rest":   {before: rest(1), do: nack, want: "0", timed: true},
	"a give-back":          {before: nothing, do: told("POST", "/internal/api/lease/%[2]s/release", ""), want: "0"},
	"an early expiry":      {before: nothing, do: expire, want: "0", silent: true},
	"an end from outside":  {before: nothing, do: told("DELETE", "/api/v1/leases/%[2]s", ""), want: "0"},
	"a seek":               {before: finish, do: told("POST", "/api/v1/consumer-groups/%[1]s/queues/%[1]s/seek", bygone), want: "0"},
	"a partition's seek":   {before: finish, do: told("POST", "/api/v1/consumer-groups/%[1]s/queues/%[1]s/partitions/p/seek", bygone), want: "0"},
	"the group's deletion": {before: finish, do: told("DELETE", "/api/v1/consumer-groups/%[1]s", ""), want: "0", gone: true},
	"the queue's resume": {
		before: both(told("POST", "/api/v1/resources/queues/%[1]s/pause", ""), nack),
		do:     told("POST", "/api/v1/resources/queues/%[1]s/resume", ""), want: "0", gone: true,
	},
	"the group's resume": {
		before: both(told("POST", "/api/v1/consumer-groups/%[1]s/queues/%[1]s/pause", ""), nack),
		do:     told("POST", "/api/v1/consumer-groups/%[1]s/queues/%[1]s/resume", ""), want: "0", gone: true,
	},
}

func bundled(b *bundle, _ string, first popped) {
	b.commit([]string{first.LeaseID}, first.acking("completed")...)
}

func rest(seconds int) func(*bundle, string, popped) {
	return func(b *bundle, name string, _ popped) {
		b.exec(`UPDATE queen.queues SET redelivery_delay_seconds = $2 WHERE name = $1`, name, seconds)
	}
}

func expire(b *bundle, _ string, first popped) {
	b.exec(`UPDATE queen.cursors SET lease_expires_at = clock_timestamp() WHERE lease_id = $1`, first.LeaseID)
}

// strangers are two delivers on one database that hear nothing of each other: every hint is dropped.
func strangers(t *testing.T, adjust func(*settings)) (here, there *bundle) {
	t.Helper()
	here = setupWith(t, adjust)
	return here, &bundle{t: t, database: here.database, process: start(t, here.database.Config, adjust)}
}

// each runs a subtest for each kind of poll and each freeing that is wanted. It is given the path of a pop.
func each(t *testing.T, here, there *bundle, wanted func(kind string, f freeing) bool, test func(here, there *bundle, name, pop string, f freeing)) {
	for what, f := range freeings {
		for kind, path := range kinds {
			if !wanted(kind, f) {
				continue
			}
			t.Run(what+" by "+kind, func(t *testing.T) {
				here, there := *here, *there
				here.t, there.t = t, t
				name := fmt.Sprintf("%x", what+kind)
				here.push(name, "p", "0")
				test(&here, &there, name, fmt.Sprintf(path, name)+"consumerGroup="+name+"&subscriptionMode=all&leaseSeconds=3600", f)
			})
		}
	}
}

// With every hint dropped, whoever pops after something was freed must find it at once.
func TestNoMesh_WhatIsFreedElsewhereIsFoundByTheNextPop(t *testing.T) {
	t.Parallel()
	here, there := strangers(t, func(s *settings) { neverLook(s); s.Sweep = 0 })
	each(t, here, there, func(_ string, f freeing) bool { return !f.timed }, func(here, there *bundle, name, pop string, f freeing) {
		first := here.mustPop(http.StatusOK, pop)
		f.before(here, name, first)
		there.mustPop(http.StatusNoContent, pop) // so that it knows what it believes
		f.do(here, name, first)
		if second := there.mustPop(http.StatusOK, pop); second.ids() != f.want {
			here.t.Errorf("the next pop answers %s", second.Raw)
		}
	})
}

// awaited has a poll park elsewhere before something is freed here, of which it hears nothing.
func awaited(here, there *bundle, name, pop string, f freeing) {
	first := here.mustPop(http.StatusOK, pop)
	f.before(here, name, first)
	answer := there.later(pop + "&wait=true&timeout=60000")
	there.parked(1)
	f.do(here, name, first)
	if second := answer(); second.ids() != f.want {
		here.t.Errorf("the poll is answered %d %s", second.Status, second.Raw)
	}
	there.parked(0)
}

// A poll looks for itself at the pace of POP_WAIT_*: whatever it waits for is found by that.
func TestNoMesh_WhatIsFreedElsewhereIsFoundByWhoLooks(t *testing.T) {
	t.Parallel()
	here, there := strangers(t, func(s *settings) { s.WaitInitial, s.WaitMax, s.Sweep = 10, 50, 0 })
	each(t, here, there, func(string, freeing) bool { return true }, awaited)
}

// Where nobody looks, the walk over everything does. It has nothing to say to a poll of one partition, which keeps no
// ring, and finds out neither that a group has become another one nor that a pause is over.
func TestNoMesh_WhatIsFreedElsewhereIsFoundByTheWalk(t *testing.T) {
	t.Parallel()
	here, there := strangers(t, func(s *settings) { neverLook(s); s.Sweep = 10 })
	each(t, here, there, func(kind string, f freeing) bool { return kind != "partition" && !f.gone }, awaited)
}

// What ends at a time that was known when the poll parked needs no news and no floor.
func TestNoMesh_WhatEndsByItselfIsFoundByTheClock(t *testing.T) {
	t.Parallel()
	here, there := strangers(t, func(s *settings) { neverLook(s); s.Sweep = 0 })
	for what, end := range map[string]func(*bundle, string, popped){"a lease": nothing, "a nack with a rest": both(rest(2), nack)} {
		for kind, path := range kinds {
			t.Run(what+" by "+kind, func(t *testing.T) {
				t.Parallel()
				here := *here
				here.t = t
				name := fmt.Sprintf("%x", what+kind)
				here.push(name, "p", "0")
				pop := fmt.Sprintf(path, name) + "consumerGroup=" + name + "&subscriptionMode=all&leaseSeconds=2"
				end(&here, name, here.mustPop(http.StatusOK, pop))
				got, err := there.pop(pop + "&wait=true&timeout=60000")
				if err != nil || got.ids() != "0" || got.Messages[0].DeliveryAttempt != 2 {
					t.Errorf("%d %s (%v)", got.Status, got.Raw, err)
				}
			})
		}
	}
}
