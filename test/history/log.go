package history

import (
	"slices"
	"time"
)

// keyed is the calls of one key in one partition.
type keyed struct {
	winners []*PushItem
	writers []Call // that stored it, or may have
	losers  []Call
	told    []string // ids
	// later are the ids that were told of what was buffered, and lost says that there are others.
	later []string
	lost  bool
}

type keyName struct {
	partition Partition
	key       string
}

// keys sorts the pushes out by key.
func (c *checker) keys() map[keyName]*keyed {
	keys := make(map[keyName]*keyed)
	for i := range c.Pushes {
		push := &c.Pushes[i]
		here := make(map[keyName]bool) // keys that this request has pushed already
		for j := range push.Items {
			item := &push.Items[j]
			name := keyName{item.Partition, item.Key}
			k := keys[name]
			if k == nil {
				k = new(keyed)
				keys[name] = k
			}
			switch {
			case push.Lost:
				k.writers, k.lost = append(k.writers, push.Call), true
			case item.Status == Buffered:
				k.writers, k.later = append(k.writers, push.Call), append(k.later, item.ID)
			case item.Status == Queued:
				if here[name] {
					c.report(RuleDedup, "%v %s: not the first of its request was stored", item.Partition, item.Key)
				}
				k.winners, k.writers, k.told = append(k.winners, item), append(k.writers, push.Call), append(k.told, item.ID)
			case item.Status == Duplicate:
				k.losers, k.told = append(k.losers, push.Call), append(k.told, item.ID)
			}
			here[name] = true
		}
	}
	return keys
}

// checkKeys judges dedup, and that told and stored are the same.
func (c *checker) checkKeys() {
	keys := c.keys()
	stored := make(map[keyName]string)
	for partition, entries := range c.Log {
		for offset, e := range entries {
			name := keyName{partition, e.Key}
			if other, twice := stored[name]; twice {
				c.report(RuleDedup, "%v %s is stored twice, as %s and as %s", partition, e.Key, other, e.ID)
			}
			stored[name] = e.ID
			if k := keys[name]; k == nil || len(k.writers) == 0 {
				c.report(RuleLog, "%v offset %d: nobody can have stored %s", partition, offset, e.Key)
			}
		}
	}
	for name, k := range keys {
		if len(k.winners) > 1 {
			c.report(RuleDedup, "%v %s was queued %d times", name.partition, name.key, len(k.winners))
		}
		id, isStored := stored[name]
		for _, told := range k.told {
			if !isStored {
				c.report(RuleLog, "%v %s: %s is not stored", name.partition, name.key, told)
			} else if told != id {
				c.report(RuleDedup, "%v %s is stored as %s and was told as %s", name.partition, name.key, id, told)
			}
		}
		c.checkLater(name, k, id)
		first := earliest(k.writers)
		for _, loser := range k.losers {
			if len(k.writers) > 0 && loser.End < first {
				c.report(RuleDedup, "%v %s was a duplicate at %v; who may have stored it began at %v", name.partition, name.key, loser.End, first)
			}
		}
	}
}

// checkLater judges what was buffered: it is stored as it was told, unless another call of the key was faster.
func (c *checker) checkLater(name keyName, k *keyed, stored string) {
	switch {
	case len(k.later) == 0:
	case stored == "":
		c.report(RuleLog, "%v %s: it was buffered as %s and is not stored", name.partition, name.key, k.later[0])
	case !k.lost && len(k.winners) == 0 && !slices.Contains(k.later, stored):
		c.report(RuleDedup, "%v %s was buffered as %v and is stored as %s", name.partition, name.key, k.later, stored)
	}
}

// earliest is the first begin of any of the calls.
func earliest(calls []Call) (first time.Duration) {
	for i, call := range calls {
		if i == 0 || call.Begin < first {
			first = call.Begin
		}
	}
	return first
}

// write is the call that stored a message, or one that may have.
type write struct {
	Call
	push, place int
	sure        bool // it did, and before it was answered
}

// writes are the calls by key; of those that may have stored it the one that began first.
func (c *checker) writes() map[keyName]write {
	writes := make(map[keyName]write)
	for i := range c.Pushes {
		push := &c.Pushes[i]
		for j, item := range push.Items {
			name := keyName{item.Partition, item.Key}
			known, other := writes[name]
			switch {
			case !push.Lost && item.Status == Queued:
				writes[name] = write{push.Call, i, j, true}
			case (push.Lost || item.Status == Buffered) && (!other || !known.sure && push.Begin < known.Begin):
				writes[name] = write{push.Call, i, j, false}
			}
		}
	}
	return writes
}

// checkOrder judges that offsets grow with time, and with the places of a request.
func (c *checker) checkOrder() {
	writes := c.writes()
	for partition, entries := range c.Log {
		var latest time.Duration // begin of any push so far
		var late string
		last := make(map[int]int) // push -> the place of its last message
		for offset, e := range entries {
			w, known := writes[keyName{partition, e.Key}]
			if !known {
				continue // reported by checkKeys
			}
			if w.sure {
				if w.End < latest {
					c.report(RuleOrder, "%v offset %d: %s was answered at %v, and %s before it began at %v", partition, offset, e.Key, w.End, late, latest)
				}
				if place, before := last[w.push]; before && w.place < place {
					c.report(RuleOrder, "%v offset %d: %s comes after a later one of its request", partition, offset, e.Key)
				}
				last[w.push] = w.place
			}
			if w.Begin > latest {
				latest, late = w.Begin, e.Key
			}
		}
	}
}

// checkServers judges that each process stores what it answered in the order of its answers, buffered or not. A message
// with more than one call that may have stored it belongs to none.
func (c *checker) checkServers() {
	calls := make(map[keyName]int)
	answers := make(map[keyName]*Push) // the call, where it is the only one and it is known who answered
	for i := range c.Pushes {
		push := &c.Pushes[i]
		for _, item := range push.Items {
			if push.Lost || item.Status == Queued || item.Status == Buffered {
				name := keyName{item.Partition, item.Key}
				calls[name]++
				answers[name] = push
			}
		}
	}
	for partition, entries := range c.Log {
		latest := make(map[string]time.Duration) // by server, the begin of any push so far
		for offset, e := range entries {
			name := keyName{partition, e.Key}
			push := answers[name]
			if push == nil || push.Lost || push.Server == "" || calls[name] > 1 {
				continue
			}
			if push.End < latest[push.Server] {
				c.report(RuleServer, "%v offset %d: %s answered %s at %v, and what is before it not before %v",
					partition, offset, push.Server, e.Key, push.End, latest[push.Server])
			}
			latest[push.Server] = max(latest[push.Server], push.Begin)
		}
	}
}
