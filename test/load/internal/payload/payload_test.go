package payload

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func pool(t *testing.T, size int, randomShare float64) *Pool {
	t.Helper()
	p, err := New(4096, size, randomShare, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// ratio is how much a segment of a hundred messages shrinks.
func ratio(t *testing.T, p *Pool) float64 {
	t.Helper()
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		t.Fatal(err)
	}
	var raw []byte
	for i := range uint64(100) {
		raw = append(raw, p.At(i)...)
	}
	return float64(len(raw)) / float64(len(encoder.EncodeAll(raw, nil)))
}

func TestPayloadsAreJSONOfTheExactSize(t *testing.T) {
	t.Parallel()
	for _, size := range []int{MinSize, 64, 256, 5000} {
		p := pool(t, size, 0.1)
		for i := range uint64(20) {
			if got := p.At(i); len(got) != size || p.Size() != size || !json.Valid(got) {
				t.Fatalf("%d bytes instead of %d: %s", len(got), size, got)
			}
		}
	}
}

func TestPayloadsCompressAboutThreeTimesUnlessAskedOtherwise(t *testing.T) {
	t.Parallel()
	words, usual, random := ratio(t, pool(t, 256, 0)), ratio(t, pool(t, 256, DefaultRandomShare)), ratio(t, pool(t, 256, 1))
	if usual < 2.8 || usual > 3.2 {
		t.Errorf("the usual share compresses %.2f times", usual)
	}
	if words < 4 || random > 1.5 {
		t.Errorf("words compress %.2f times, random characters %.2f", words, random)
	}
}

func TestPoolIsTheSameForTheSameSeed(t *testing.T) {
	t.Parallel()
	one, two := pool(t, 256, 0), pool(t, 256, 0)
	for i := range uint64(100) {
		if !bytes.Equal(one.At(i), two.At(i)) {
			t.Fatalf("payload %d differs", i)
		}
	}
	if bytes.Equal(one.At(0), one.At(1)) || !bytes.Equal(one.At(3), one.At(3+4096)) {
		t.Error("payloads repeat too early, or do not wrap around")
	}
}

func TestImpossiblePayloadsAreRefused(t *testing.T) {
	t.Parallel()
	for _, made := range []func() (*Pool, error){
		func() (*Pool, error) { return New(0, 256, 0, 1) },
		func() (*Pool, error) { return New(1, MinSize-1, 0, 1) },
		func() (*Pool, error) { return New(1, 256, 1.1, 1) },
		func() (*Pool, error) { return New(1, 256, -0.1, 1) },
	} {
		if p, err := made(); err == nil {
			t.Errorf("made %v", p)
		}
	}
}
