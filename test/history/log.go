package history

import "time"

// keyed is the calls of one key in one partition.
type keyed struct {
	winners []*PushItem
	writers []Call // that stored it, or may have
	losers  []Call
	told    []string // ids
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
				k.writers = append(k.writers, push.Call)
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
		first := earliest(k.writers)
		for _, loser := range k.losers {
			if len(k.writers) > 0 && loser.End < first {
				c.report(RuleDedup, "%v %s was a duplicate at %v; who may have stored it began at %v", name.partition, name.key, loser.End, first)
			}
		}
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

// checkOrder judges that offsets grow with time, and with the places of a request.
func (c *checker) checkOrder() {
	type write struct {
		Call
		push, place int
	}
	writes := make(map[keyName]write)
	for i := range c.Pushes {
		push := &c.Pushes[i]
		for j, item := range push.Items {
			name := keyName{item.Partition, item.Key}
			known, other := writes[name]
			switch {
			case !push.Lost && item.Status == Queued:
				writes[name] = write{push.Call, i, j}
			case push.Lost && (!other || known.Lost && push.Begin < known.Begin):
				writes[name] = write{push.Call, i, j}
			}
		}
	}
	for partition, entries := range c.Log {
		var latest time.Duration // begin of any push so far
		var late string
		last := make(map[int]int) // push -> the place of its last message
		for offset, e := range entries {
			w, known := writes[keyName{partition, e.Key}]
			if !known {
				continue // reported by checkKeys
			}
			if !w.Lost {
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
