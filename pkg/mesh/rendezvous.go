package mesh

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// Before says whether, of two processes, the one with the server id a goes before b at a partition. All processes agree on
// it without a word, and each goes first at its share of the partitions.
func Before(a, b string, partition int64) bool {
	weightA, weightB := weight(a, partition), weight(b, partition)
	return weightA > weightB || weightA == weightB && a > b
}

func weight(id string, partition int64) uint64 {
	var room [128]byte
	return xxh3.Hash(binary.BigEndian.AppendUint64(append(room[:0], id...), uint64(partition)))
}
