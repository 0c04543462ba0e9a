package log

import "time"

// Columns are runs as the procedures take them, one element a run; the hashes of all runs stand one after the other.
type Columns struct {
	Partitions                                     []int64
	UIDs                                           uuids
	Tags                                           []int64
	Counts, RawBytes                               []int32
	Codecs                                         []int16
	Payloads                                       [][]byte
	Hashes                                         uuids
	Sealed                                         []bool
	VouchFirsts, VouchBases, VouchLasts, VouchTags []*int64
	VouchSince                                     []*time.Time
}

// NewColumns returns the columns of runs. None is nil, which would be NULL.
func NewColumns(runs []Run) Columns {
	n := len(runs)
	c := Columns{
		Partitions: make([]int64, n), UIDs: make(uuids, n), Tags: make([]int64, n), Counts: make([]int32, n), RawBytes: make([]int32, n),
		Codecs: make([]int16, n), Payloads: make([][]byte, n), Hashes: uuids{}, Sealed: make([]bool, n),
		VouchFirsts: make([]*int64, n), VouchBases: make([]*int64, n), VouchLasts: make([]*int64, n), VouchTags: make([]*int64, n),
		VouchSince: make([]*time.Time, n),
	}
	for i := range runs {
		run := &runs[i]
		c.Partitions[i], c.UIDs[i], c.Tags[i], c.Counts[i] = run.Partition.ID, wireUUID(run.Partition.UID), run.Tag, int32(run.Segment.Count)
		c.RawBytes[i], c.Codecs[i], c.Payloads[i] = int32(run.Segment.RawBytes), run.Segment.Codec, run.Segment.Blob
		c.Sealed[i] = run.Sealed
		if v := run.Voucher; v != nil {
			c.VouchFirsts[i], c.VouchSince[i], c.VouchBases[i], c.VouchLasts[i], c.VouchTags[i] = &v.First, &v.Since, &v.Base, &v.Last, &v.Tag
		}
		for _, h := range run.Hashes {
			c.Hashes = append(c.Hashes, wireUUID(h))
		}
	}
	return c
}
