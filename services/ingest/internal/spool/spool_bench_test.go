package spool

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"queen.internal/services/ingest/internal/spool/disk"
	"queen.internal/services/ingest/internal/spool/frame"
)

// pairs is how often spool and yardstick take turns; the figure is the median of their ratios.
const pairs = 5

// benchBody is a record of one small message.
const benchBody = 300

// onDisk is a root on the real file system, whose fsyncs are real.
func onDisk(b *testing.B) *bundle {
	b.Helper()
	return setup(b, func(o *Options) { o.FS, o.FileBytes, o.FileRecords = disk.OS{}, 8<<20, 10_000 })
}

func benchEntry() []Entry {
	body := make([]byte, benchBody)
	for i := range body {
		body[i] = byte(rand.Uint32())
	}
	return []Entry{{Version: 1, Body: body}}
}

// BenchmarkSpoolAppend stores small records by one, 16 and 64 writers at a time, which share fsyncs. One operation is one
// record. The yardstick writes the same bytes to a plain file and fsyncs it after as many records as there are writers.
func BenchmarkSpoolAppend(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s, each := onDisk(b).create(b), max(b.N/pairs/writers, 1)
			plain, err := os.Create(filepath.Join(b.TempDir(), "plain"))
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = plain.Close() })
			var ratios []float64
			var spooled, written time.Duration
			for b.ResetTimer(); len(ratios) < pairs; {
				yard := writePlainly(b, plain, writers, each)
				took := appendAll(b, s, writers, each)
				spooled, written = spooled+took, written+yard
				ratios = append(ratios, float64(yard)/float64(took))
			}
			records := float64(pairs * writers * each)
			tell(b, records, spooled, written, ratios)
		})
	}
}

// tell reports both rates and the median of the ratios: 1 is as fast as the yardstick.
func tell(b *testing.B, records float64, subject, yardstick time.Duration, ratios []float64) {
	b.Helper()
	slices.Sort(ratios)
	b.ReportMetric(records/subject.Seconds(), "records/s")
	b.ReportMetric(records/yardstick.Seconds(), "plain/s")
	b.ReportMetric(ratios[len(ratios)/2], "x-plain")
	b.ReportMetric(float64(subject.Nanoseconds())/records, "ns/op")
}

func writePlainly(b *testing.B, f *os.File, together, times int) time.Duration {
	b.Helper()
	block := bytes.Repeat(make([]byte, frame.Size(benchBody)), together)
	began := time.Now()
	for range times {
		if _, err := f.Write(block); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(began)
}

func appendAll(b *testing.B, s *Spool, writers, each int) time.Duration {
	b.Helper()
	var all sync.WaitGroup
	began := time.Now()
	for range writers {
		all.Go(func() {
			entries := benchEntry()
			for range each {
				if err := s.Append(entries); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

// BenchmarkSpoolReplay reads and settles what was spooled and removes its files. One operation is one record. The yardstick
// reads the same files in blocks and removes them. What the database makes of the records is not in it: see BenchmarkSpool of the
// service.
func BenchmarkSpoolReplay(b *testing.B) {
	var ratios []float64
	var read, plainly time.Duration
	each := max(b.N/pairs, 1)
	batch := make([]Entry, 0, 1000)
	for len(batch) < cap(batch) {
		batch = append(batch, benchEntry()...)
	}
	for b.ResetTimer(); len(ratios) < pairs; {
		w := onDisk(b)
		s := w.create(b)
		for left := each; left > 0; left -= len(batch) {
			if err := s.Append(batch[:min(left, len(batch))]); err != nil {
				b.Fatal(err)
			}
		}
		c := w.copyOf(b, s, filepath.Join(b.TempDir(), "copy"))
		yard := readPlainly(b, c.files(b, s))
		began := time.Now()
		readAll(b, s)
		took := time.Since(began)
		read, plainly = read+took, plainly+yard
		ratios = append(ratios, float64(yard)/float64(took))
	}
	tell(b, float64(pairs*each), read, plainly, ratios)
}

func readPlainly(b *testing.B, paths []string) time.Duration {
	b.Helper()
	began := time.Now()
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, 256<<10)); err != nil {
			b.Fatal(err)
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			b.Fatal(err)
		}
		if err := (disk.OS{}).SyncDir(filepath.Dir(path)); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(began)
}

func readAll(b *testing.B, s *Spool) {
	b.Helper()
	for {
		item, err := s.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			b.Fatal(err)
		}
		s.Settle(item)
	}
	emptied(b, s)
}
