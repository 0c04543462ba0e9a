// Package ledger is the demonstration's judge: it hears of every message that was pushed, delivered and acknowledged, and
// counts what must not happen. It knows neither the broker nor HTTP.
//
// A message is (partition, sequence); sequences are given out in push order, per partition, from 0. Judged per group:
//   - out of order: a message is delivered for the first time after a later one of its partition was;
//   - lost: it was pushed and never acknowledged;
//   - altered: its payload is not the one that was pushed;
//   - unknown: it was delivered and never sent.
//
// A delivery that is not the first is a redelivery, which is what a lease that expired must lead to.
package ledger

// set is a set of sequences.
type set []uint64

// add reports whether i was not in the set.
func (s *set) add(i int) bool {
	for len(*s) <= i/64 {
		*s = append(*s, 0)
	}
	word, bit := &(*s)[i/64], uint64(1)<<(i%64)
	fresh := *word&bit == 0
	*word |= bit
	return fresh
}

func (s set) has(i int) bool { return i/64 < len(s) && s[i/64]&(1<<(i%64)) != 0 }
