package segment

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// Codecs: the version of the frames and how they are compressed. Stored with every segment; a value once used keeps its
// meaning for ever.
const (
	CodecPlain int16 = 0 // version 1 frames as they are
	CodecZstd  int16 = 1 // version 1 frames in one zstd frame
)

// minCompressed is the size below which zstd's frame overhead and its call cost more than they save.
const minCompressed = 512

// encoder and decoder are stateless in EncodeAll and DecodeAll, and safe for concurrent use. Concurrency bounds how many
// of their internal states are kept; each is a few hundred KiB.
var (
	encoder = must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderCRC(false), zstd.WithWindowSize(MaxRawBytes)))
	decoder = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecodeAllCapLimit(true)))
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err) // constant options: only a bug can be refused
	}
	return value
}

// Encoded is a segment ready to be stored. Count is at least 1.
type Encoded struct {
	Codec    int16
	RawBytes int // size of the frames before compression
	Count    int
	Blob     []byte
}

// Encode makes one segment of msgs, which must respect the bounds of a segment.
func Encode(msgs []Message) Encoded {
	size := 0
	for i := range msgs {
		size += msgs[i].Size()
	}
	raw := make([]byte, 0, size)
	for i := range msgs {
		raw = appendFrame(raw, &msgs[i])
	}
	plain := Encoded{Codec: CodecPlain, RawBytes: len(raw), Count: len(msgs), Blob: raw}
	if len(raw) < minCompressed {
		return plain
	}
	blob := encoder.EncodeAll(raw, make([]byte, 0, len(raw)/2))
	if len(blob) >= len(raw) {
		return plain
	}
	return Encoded{Codec: CodecZstd, RawBytes: len(raw), Count: len(msgs), Blob: blob}
}

// Decode reads a stored segment of count messages. Payloads share memory with blob or with one buffer of rawBytes bytes;
// they must not be written to. An error wraps ErrCorrupt.
func Decode(codec int16, rawBytes, count int, blob []byte) ([]Message, error) {
	if count < 1 || count > MaxMessages || rawBytes < 0 {
		return nil, fmt.Errorf("%w: %d messages in %d bytes", ErrCorrupt, count, rawBytes)
	}
	raw := blob
	switch codec {
	case CodecPlain:
	case CodecZstd:
		var err error
		// The stored size is the bound: a damaged frame cannot make us allocate more.
		if raw, err = decoder.DecodeAll(blob, make([]byte, 0, rawBytes)); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	default:
		return nil, fmt.Errorf("%w: codec %d is not known to this version", ErrCorrupt, codec)
	}
	if len(raw) != rawBytes {
		return nil, fmt.Errorf("%w: %d bytes of frames instead of %d", ErrCorrupt, len(raw), rawBytes)
	}
	reader := frameReader{rest: raw}
	msgs := make([]Message, 0, count)
	for range count {
		m := reader.message()
		if reader.err != nil {
			return nil, reader.err
		}
		msgs = append(msgs, m)
	}
	if len(reader.rest) != 0 {
		return nil, fmt.Errorf("%w: %d bytes after the last message", ErrCorrupt, len(reader.rest))
	}
	return msgs, nil
}
