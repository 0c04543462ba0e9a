package frame

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/google/uuid"
)

// recordHeader is the length of what precedes a record's body, in bytes.
const recordHeader = 22

// Record is one record. Version and Flags say how to read Body; this package passes them on.
type Record struct {
	Sequence uint64
	Version  uint8
	Flags    uint8
	Body     []byte
}

// Size is how many bytes a record with a body of that length takes in a file.
func Size(body int) int64 { return int64(recordHeader + body) }

// Append appends r, of spool, to dst.
func Append(dst []byte, spool uuid.UUID, r Record) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, mark(spool))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(r.Body)))
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint64(dst, r.Sequence)
	dst = append(dst, r.Version, r.Flags)
	dst = append(dst, r.Body...)
	binary.LittleEndian.PutUint32(dst[start+8:], recordSum(spool, dst[start:]))
	return dst
}

// mark begins every record of a spool.
func mark(spool uuid.UUID) uint32 { return crc32.Checksum(spool[:], table) }

func recordSum(spool uuid.UUID, record []byte) uint32 {
	sum := crc32.Update(0, table, spool[:])
	sum = crc32.Update(sum, table, record[4:8])
	return crc32.Update(sum, table, record[12:])
}

// parse reads the record at the beginning of data. It is false when there is none; size is how long the record would be,
// 0 when that cannot be told. What it returns shares memory with data.
func parse(spool uuid.UUID, data []byte) (r Record, size int, ok bool) {
	if len(data) < recordHeader || binary.LittleEndian.Uint32(data) != mark(spool) {
		return Record{}, 0, false
	}
	size = recordHeader + int(binary.LittleEndian.Uint32(data[4:]))
	if size > len(data) || binary.LittleEndian.Uint32(data[8:]) != recordSum(spool, data[:size]) {
		return Record{}, size, false
	}
	return Record{
		Sequence: binary.LittleEndian.Uint64(data[12:]), Version: data[20], Flags: data[21], Body: data[recordHeader:size:size],
	}, size, true
}
