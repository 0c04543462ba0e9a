package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"
)

var spoolID = uuid.MustParse("0198c1d2-0000-7000-8000-00000000000a")

// written is a file without its header, and where each of its records begins; the last entry is the end.
func written(records []Record) (data []byte, starts []int) {
	for _, r := range records {
		starts = append(starts, len(data))
		data = Append(data, spoolID, r)
	}
	return data, append(starts, len(data))
}

func three() []Record {
	return []Record{
		{Sequence: 7, Version: 1, Flags: 2, Body: []byte(`the first of three`)},
		{Sequence: 8, Version: 1, Body: bytes.Repeat([]byte("long "), 20)},
		{Sequence: 9, Version: 3, Flags: 255, Body: nil},
	}
}

// scan reads everything.
func scan(t testing.TB, data []byte, last uint64) (records []Record, damaged []Piece) {
	t.Helper()
	s := NewScanner(bytes.NewReader(data), spoolID, 0, int64(len(data)), last)
	at := int64(0)
	for {
		p, err := s.Next()
		if err == io.EOF {
			if at != int64(len(data)) {
				t.Fatalf("ended at %d of %d", at, len(data))
			}
			return records, damaged
		}
		if err != nil {
			t.Fatal(err)
		}
		if p.Start != at || p.End <= p.Start {
			t.Fatalf("a piece %d..%d behind %d", p.Start, p.End, at)
		}
		at = p.End
		if p.Damaged {
			damaged = append(damaged, p)
		} else {
			records = append(records, p.Record)
		}
	}
}

func TestWhatWasWrittenIsRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var records []Record
		sequence := uint64(0)
		for range rapid.IntRange(0, 8).Draw(rt, "records") {
			sequence += rapid.Uint64Range(1, 3).Draw(rt, "step")
			size := rapid.SampledFrom([]int{0, 1, 100, window - 30, window, 2*window + 1}).Draw(rt, "size")
			records = append(records, Record{
				Sequence: sequence, Version: rapid.Byte().Draw(rt, "version"), Flags: rapid.Byte().Draw(rt, "flags"),
				Body: bytes.Repeat([]byte{byte(size), 1, 2}, size/3+1)[:size],
			})
		}
		data, _ := written(records)
		got, damaged := scan(t, data, 0)
		if len(damaged) > 0 || len(got) != len(records) {
			rt.Fatalf("%d records of %d, damaged: %v", len(got), len(records), damaged)
		}
		for i := range got {
			if got[i].Sequence != records[i].Sequence || got[i].Flags != records[i].Flags || !bytes.Equal(got[i].Body, records[i].Body) {
				rt.Fatalf("record %d differs", i)
			}
		}
	})
}

func TestAFileCutAnywhereKeepsItsWholeRecords(t *testing.T) {
	t.Parallel()
	records := three()
	data, starts := written(records)
	for cut := range len(data) + 1 {
		whole := 0
		for whole < len(records) && starts[whole+1] <= cut {
			whole++
		}
		got, damaged := scan(t, data[:cut], 0)
		if len(got) != whole {
			t.Fatalf("cut at %d: %d records, want %d", cut, len(got), whole)
		}
		if rest := cut - starts[whole]; rest > 0 && (len(damaged) != 1 || !damaged[0].Torn) || rest == 0 && len(damaged) > 0 {
			t.Fatalf("cut at %d: %+v", cut, damaged)
		}
	}
}

func TestAnyFlippedBitCostsItsRecordAndNoOther(t *testing.T) {
	t.Parallel()
	records := three()
	data, starts := written(records)
	for bit := range 8 * len(data) {
		hit := 0
		for starts[hit+1] <= bit/8 {
			hit++
		}
		flipped := bytes.Clone(data)
		flipped[bit/8] ^= 1 << (bit % 8)
		got, damaged := scan(t, flipped, 0)
		if len(got) != len(records)-1 || len(damaged) != 1 {
			t.Fatalf("bit %d: %d records, %d pieces of damage", bit, len(got), len(damaged))
		}
		if damaged[0].Start != int64(starts[hit]) || damaged[0].End != int64(starts[hit+1]) {
			t.Fatalf("bit %d in record %d: damage %+v", bit, hit, damaged[0])
		}
	}
}

func TestAZeroedBlockCostsWhatItCovers(t *testing.T) {
	t.Parallel()
	var records []Record
	for i := range 100 {
		records = append(records, Record{Sequence: uint64(i + 1), Body: bytes.Repeat([]byte{byte(i)}, 300)})
	}
	data, starts := written(records)
	clear(data[4096:8192])
	lost := 0
	for i := range records {
		if starts[i] < 8192 && starts[i+1] > 4096 {
			lost++
		}
	}
	got, damaged := scan(t, data, 0)
	if len(got) != len(records)-lost || len(damaged) != 1 || damaged[0].Torn {
		t.Errorf("%d records of %d with %d hit, damage %+v", len(got), len(records), lost, damaged)
	}
}

// A producer who knows the form of a record cannot make one: he does not know the spool's id.
func TestARecordOfAnotherSpoolIsNone(t *testing.T) {
	t.Parallel()
	other := uuid.MustParse("0198c1d2-0000-7000-8000-00000000000b")
	inside := Append(nil, other, Record{Sequence: 100, Body: []byte("forged")})
	data, _ := written([]Record{{Sequence: 1, Body: inside}, {Sequence: 2, Body: []byte("honest")}})
	data[4] ^= 1 // the length of the first: from here on the scanner has to search
	got, damaged := scan(t, data, 0)
	if len(got) != 1 || string(got[0].Body) != "honest" || len(damaged) != 1 {
		t.Errorf("%+v, %+v", got, damaged)
	}
}

func TestSequencesOnlyRise(t *testing.T) {
	t.Parallel()
	data, _ := written([]Record{{Sequence: 5}, {Sequence: 5}, {Sequence: 4}, {Sequence: 6}})
	got, damaged := scan(t, data, 0)
	if len(got) != 2 || got[0].Sequence != 5 || got[1].Sequence != 6 || len(damaged) != 1 {
		t.Errorf("%+v, %+v", got, damaged)
	}
	if got, _ := scan(t, data, 5); len(got) != 1 || got[0].Sequence != 6 {
		t.Errorf("behind 5: %+v", got)
	}
}

func TestAFileThatGrowsIsReadOn(t *testing.T) {
	t.Parallel()
	records := three()
	data, starts := written(records)
	s := NewScanner(bytes.NewReader(data), spoolID, 0, int64(starts[1]), 0)
	for i := range records {
		s.Extend(int64(starts[i+1]))
		p, err := s.Next()
		if err != nil || p.Damaged || p.Record.Sequence != records[i].Sequence {
			t.Fatalf("%+v %v", p, err)
		}
		if _, err := s.Next(); err != io.EOF || !s.At(int64(starts[i+1])) {
			t.Fatalf("read beyond the end: %v", err)
		}
	}
}

func TestAReadThatFailsCanBeRepeated(t *testing.T) {
	t.Parallel()
	data, _ := written(three())
	from := &moody{data: data, err: errors.New("bad sector")}
	s := NewScanner(from, spoolID, 0, int64(len(data)), 0)
	if _, err := s.Next(); err == nil {
		t.Fatal("no error")
	}
	from.err = nil
	for range three() {
		if p, err := s.Next(); err != nil || p.Damaged {
			t.Fatalf("%+v %v", p, err)
		}
	}
}

// moody is a file that cannot be read while err is set.
type moody struct {
	data []byte
	err  error
}

func (m *moody) ReadAt(p []byte, off int64) (int, error) {
	if m.err != nil {
		return 0, m.err
	}
	return bytes.NewReader(m.data).ReadAt(p, off)
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	h := Header{Spool: spoolID, Number: 12, First: 3456}
	data := AppendHeader(nil, h)
	got, err := ParseHeader(spoolID, data)
	if diff := cmp.Diff(h, got); diff != "" || err != nil || len(data) != HeaderSize {
		t.Fatalf("%v %s", err, diff)
	}
	if _, err := ParseHeader(uuid.New(), data); !errors.Is(err, ErrNoHeader) {
		t.Errorf("of another spool: %v", err)
	}
	for bit := range 8 * len(data) {
		flipped := bytes.Clone(data)
		flipped[bit/8] ^= 1 << (bit % 8)
		if _, err := ParseHeader(spoolID, flipped); !errors.Is(err, ErrNoHeader) {
			t.Fatalf("bit %d: %v", bit, err)
		}
	}
	for n := range data {
		if _, err := ParseHeader(spoolID, data[:n]); !errors.Is(err, ErrNoHeader) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
}

// FuzzScanner: no bytes make the scanner panic, hang or invent a record, and what follows them is found.
func FuzzScanner(f *testing.F) {
	data, starts := written(three())
	f.Add(data)
	f.Add(data[:starts[2]-3])
	f.Add(binary.LittleEndian.AppendUint32(nil, mark(spoolID)))
	f.Add(append(data[1:40:40], data...))
	f.Fuzz(func(t *testing.T, junk []byte) {
		if len(junk) > 1<<16 {
			return
		}
		tail := Append(nil, spoolID, Record{Sequence: 1 << 62, Body: []byte("last")})
		got, _ := scan(t, append(bytes.Clone(junk), tail...), 0)
		if len(got) == 0 || got[len(got)-1].Sequence < 1<<62 {
			t.Fatal("the record behind the junk was not found")
		}
	})
}
