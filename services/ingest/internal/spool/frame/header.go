package frame

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/google/uuid"
)

// Version is the form of files that this build writes, and the only one that it reads.
const Version = 1

// HeaderSize is the length of a file's header in bytes.
const HeaderSize = 48

const magic = "QUEENSPL"

var table = crc32.MakeTable(crc32.Castagnoli)

// Header is the beginning of a file.
type Header struct {
	Spool  uuid.UUID
	Number uint64 // of the file in its spool, from 1
	First  uint64 // sequence of its first record
}

// ErrNoHeader means that a file does not begin with a header of its spool.
var ErrNoHeader = errors.New("no header of this spool")

// AppendHeader appends h to dst.
func AppendHeader(dst []byte, h Header) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint16(dst, Version)
	dst = binary.LittleEndian.AppendUint16(dst, 0)
	dst = append(dst, h.Spool[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, h.Number)
	dst = binary.LittleEndian.AppendUint64(dst, h.First)
	binary.LittleEndian.PutUint32(dst[start+8:], headerSum(h.Spool, dst[start:]))
	return dst
}

func headerSum(spool uuid.UUID, header []byte) uint32 {
	sum := crc32.Update(0, table, spool[:])
	sum = crc32.Update(sum, table, header[:8])
	return crc32.Update(sum, table, header[12:HeaderSize])
}

// Owner is the spool whose file data is the beginning of, as the header tells; ParseHeader says whether that can be believed.
func Owner(data []byte) (spool uuid.UUID, ok bool) {
	if len(data) < HeaderSize || string(data[:8]) != magic {
		return uuid.UUID{}, false
	}
	copy(spool[:], data[16:])
	return spool, true
}

// ParseHeader reads the header of a file of spool. The error is ErrNoHeader.
func ParseHeader(spool uuid.UUID, data []byte) (Header, error) {
	if len(data) < HeaderSize || string(data[:8]) != magic ||
		binary.LittleEndian.Uint32(data[8:]) != headerSum(spool, data) || binary.LittleEndian.Uint16(data[12:]) != Version {
		return Header{}, ErrNoHeader
	}
	h := Header{Number: binary.LittleEndian.Uint64(data[32:]), First: binary.LittleEndian.Uint64(data[40:])}
	copy(h.Spool[:], data[16:])
	return h, nil
}
