package spool

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// A spool's life with a disk that fails and machines that lose their power, against what was answered: every answered
// record is there, in order, once, and nothing else is, except when the disk refused to cut a file as well.
func TestHistoriesOfWritesFaultsAndCrashes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		b := setup(t, func(o *Options) {
			o.FileRecords = rapid.IntRange(1, 4).Draw(rt, "records a file")
			o.FileBytes = int64(rapid.IntRange(60, 400).Draw(rt, "bytes a file"))
		})
		s, err := b.folder.Create()
		if err != nil {
			rt.Fatal(err)
		}
		var answered, unsettled []string // of the living spool and what its reader holds
		var items []*Item
		n := 0
		settle := func(count int) {
			for _, item := range items[:count] {
				s.Settle(item)
			}
			items, unsettled = items[count:], unsettled[count:]
		}
		read := func(rt *rapid.T) {
			for {
				item, err := s.Next()
				if err != nil {
					return
				}
				if len(answered) == 0 || string(item.Body) != answered[0] {
					rt.Fatalf("read %q, want %v", item.Body, answered)
				}
				items, unsettled, answered = append(items, item), append(unsettled, answered[0]), answered[1:]
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) {
				var entries []Entry
				var texts []string
				for range rapid.IntRange(1, 3).Draw(rt, "entries") {
					n++
					texts = append(texts, fmt.Sprint("record ", n))
					entries = append(entries, entry(texts[len(texts)-1])...)
				}
				if s.Append(entries) == nil {
					answered = append(answered, texts...)
				}
			},
			"fault": func(rt *rapid.T) {
				call := rapid.SampledFrom([]string{"write", "sync", "create", "syncdir", "remove"}).Draw(rt, "call")
				b.disk.Fail(call, "", rapid.IntRange(1, 2).Draw(rt, "after"), syscall.EIO, true)
			},
			"short write": func(rt *rapid.T) {
				b.disk.FailWrite(fileSuffix, rapid.IntRange(1, 60).Draw(rt, "bytes"), syscall.ENOSPC)
			},
			"read":   read,
			"settle": func(rt *rapid.T) { settle(rapid.IntRange(0, len(items)).Draw(rt, "items")) },
			"reclaim": func(rt *rapid.T) {
				if empty, _ := s.Reclaim(); empty && len(answered)+len(unsettled) > 0 {
					rt.Fatal("empty with records in it")
				}
			},
			"crash": func(rt *rapid.T) {
				b.disk.Heal()
				power := rapid.Bool().Draw(rt, "power")
				if err := s.Close(); err != nil {
					rt.Fatal(err)
				}
				if power {
					if err := b.disk.Crash(); err != nil {
						rt.Fatal(err)
					}
				}
				old := b.claim(t, s.name)
				// What was settled is gone or comes again; everything else comes, in order.
				got := drain(t, old)
				want := slices.Concat(unsettled, answered)
				if len(got) < len(want) || !slices.Equal(got[len(got)-len(want):], want) {
					rt.Fatalf("recovered %v, want %v at its end", got, want)
				}
				// A file whose beginning failed and that could not be removed has half a header.
				if d := old.Damage(); d.SetAside > 0 || d.Missing > 0 {
					rt.Fatalf("%+v", d)
				}
				emptied(t, old)
				if err := old.Remove(); err != nil {
					rt.Fatal(err)
				}
				var err error
				if s, err = b.folder.Create(); err != nil {
					rt.Fatal(err)
				}
				items, unsettled, answered = nil, nil, nil
			},
		})
		b.disk.Heal()
		if err := s.Close(); err != nil {
			rt.Fatal(err)
		}
	})
}
