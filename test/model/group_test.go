package model_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// where a seek goes: the beginning, the end, or the time of a segment, of which the offset is looked up for each partition.
type aim struct {
	text string // of the body
	at   time.Time
	end  bool
}

// segment is where a segment of a partition begins, and when it was committed.
type segment struct {
	Partition string
	Base      int
	Created   time.Time
}

// segments are those of a queue, in order.
func (h *history) segments(q *queue) []segment {
	rows, err := h.db.Query(h.Context(), `SELECT p.name, g.base_offset, g.created_at FROM queen.queues q JOIN queen.partitions p ON p.queue_id = q.id
		JOIN queen.segments g ON g.partition_id = p.id WHERE q.name = $1 AND q.deleted_at IS NULL ORDER BY g.created_at, p.name, g.base_offset`, q.name)
	if err != nil {
		h.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[segment])
	if err != nil {
		h.Fatal(err)
	}
	return found
}

func (h *history) aim(known []segment) aim {
	switch choice := h.number("to", 0, 3); {
	case choice == 0:
		return aim{text: `{"timestamp":"1970-01-01T00:00:00Z"}`}
	case choice == 1 || len(known) == 0:
		return aim{text: `{"toEnd":true}`, end: true}
	default:
		at := known[h.number("segment", 0, len(known)-1)].Created
		return aim{text: fmt.Sprintf(`{"timestamp":%q}`, at.UTC().Format("2006-01-02T15:04:05.000000Z")), at: at}
	}
}

// place puts a group's cursor where a seek goes; what is remembered of deliveries is forgotten.
func (a aim) place(s *subscription, p *partition, known []segment) {
	at := len(p.messages)
	if !a.end {
		for _, g := range slices.Backward(known) {
			if g.Partition == p.name && !g.Created.Before(a.at) {
				at = g.Base
			}
		}
	}
	s.cursors[p] = newCursor(at - 1)
}

// seek moves a group in a queue, or in one partition of it.
func (h *history) seek() {
	group, name := h.pick("group", h.groupNames...), h.queueName(h.pick("queue", h.queueNames...))
	q := h.queue(name)
	var known []segment
	if q != nil {
		known = h.segments(q)
	}
	to := h.aim(known)
	path, where := "/api/v1/consumer-groups/"+group+"/queues/"+name, short(name)
	want := 404
	if h.oneIn(2, "one partition") {
		partitionName := h.pick("partition", h.partitionNames...)
		path, where = path+"/partitions/"+partitionName, where+"/"+partitionName
		if q != nil && q.partition(partitionName) != nil {
			to.place(q.group(group), q.partition(partitionName), known)
			want = 200
		}
	} else if q != nil && len(q.partitions) > 0 {
		q.register(group, "new")
		for _, p := range q.partitions {
			to.place(q.group(group), p, known)
		}
		want = 200
	}
	h.Logf("seek %s for %s: %s", where, group, to.text)
	if status, answer := h.call("POST", path+"/seek", to.text); status != want {
		h.Fatalf("%d %s, want %d", status, answer, want)
	}
	h.count("seeks", 1)
}

// forget deletes a group on a queue or everywhere, with what is noted about it or without.
func (h *history) forget() {
	group := h.pick("group", h.groupNames...)
	path, where, only := "/api/v1/consumer-groups/"+group, "everywhere", ""
	if h.oneIn(2, "one queue") {
		only = h.queueName(h.pick("queue", h.queueNames...))
		path, where = path+"/queues/"+only, short(only)
	}
	metadata := !h.oneIn(2, "keep")
	cursors := 0
	for _, q := range h.queues {
		s := q.groups[group]
		if s == nil || only != "" && q.name != only {
			continue
		}
		cursors += len(s.cursors)
		if metadata {
			delete(q.groups, group)
		} else {
			s.newest, s.cursors = 0, make(map[*partition]*cursor)
		}
	}
	h.Logf("delete group %s %s, metadata %v", group, where, metadata)
	if only == "" {
		// Groups of other histories have other queues: only this one's are counted.
		for _, q := range h.queues {
			h.forgetAt(path+"/queues/"+q.name, metadata, -1)
		}
		return
	}
	h.forgetAt(path, metadata, cursors)
}

func (h *history) forgetAt(path string, metadata bool, cursors int) {
	status, answer := h.call("DELETE", fmt.Sprintf("%s?deleteMetadata=%v", path, metadata), "")
	var got struct {
		Success           bool
		DeletedPartitions int
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil || status != 200 || !got.Success || cursors >= 0 && got.DeletedPartitions != cursors {
		h.Fatalf("%d %s, want %d cursors", status, answer, cursors)
	}
	h.count("groups deleted", 1)
}

// purge removes dead letters of a queue, or of one group there.
func (h *history) purge() {
	name, group := h.queueName(h.pick("queue", h.queueNames...)), ""
	if h.oneIn(2, "one group") {
		group = h.pick("group", h.groupNames...)
	}
	removed := 0
	if q := h.queue(name); q != nil {
		before := len(q.dead)
		q.dead = slices.DeleteFunc(q.dead, func(d deadLetter) bool { return group == "" || d.Group == group })
		removed = before - len(q.dead)
	}
	h.Logf("purge the dead letters of %s %s", short(name), group)
	status, answer := h.call("DELETE", "/api/v1/dlq?queue="+url.QueryEscape(name)+"&consumerGroup="+group, "")
	var got map[string]any
	if err := json.Unmarshal([]byte(answer), &got); err != nil || status != 200 || got["deleted"] != float64(removed) {
		h.Fatalf("%d %s, want %d", status, answer, removed)
	}
}
