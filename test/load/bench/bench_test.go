package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/test/load/internal/machine"
	"queen.internal/test/load/internal/turn"
	"queen.internal/test/load/internal/verdict"
)

// taken is pairs in which only these rates count.
func taken(pairs ...[2]float64) (all []Taken) {
	for _, p := range pairs {
		all = append(all, Taken{
			Subject:   turn.Figures{Pushed: p[0], Seconds: 2, Usage: []machine.Usage{{Name: "postgres", CPU: 1}, {Name: "ingest", CPU: 3}}},
			Yardstick: turn.Figures{Stored: p[1], Seconds: 2},
		})
	}
	return all
}

func TestVerdictIsTheMedianOfThePairs(t *testing.T) {
	t.Parallel()
	pairs := taken([2]float64{100_000, 200_000}, [2]float64{50_000, 60_000}, [2]float64{140_000, 200_000})
	r := compare("push", "messages/s", "raw", verdict.Bar{Limit: 0.6}, pairs, pushed, stored)
	if r.Figure != 0.7 || r.Subject != 100_000 || r.Yardstick != 200_000 || !*r.Met || r.Bar != "at least 0.6 x" {
		t.Errorf("%+v", r)
	}
	if r := compare("push", "messages/s", "raw", verdict.Bar{Limit: 0.71}, pairs, pushed, stored); *r.Met {
		t.Errorf("%+v", r)
	}
	if got := cpuPerMessage(pairs, pushed); got != 20 { // 4 s over 200 000 messages
		t.Errorf("%g us a message", got)
	}
	if r := absolute("CPU", "us", verdict.Bar{Limit: 15, Direction: verdict.AtMost}, 20); *r.Met || r.Bar != "at most 15 us" {
		t.Errorf("%+v", r)
	}
}

func TestRecordSurvivesFiguresThatAreMissing(t *testing.T) {
	t.Parallel()
	r := compare("push", "messages/s", "raw", verdict.Bar{Limit: 0.6}, taken([2]float64{1, 0}), pushed, stored)
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Result
	if err := json.Unmarshal(raw, &back); err != nil || !math.IsNaN(float64(back.Figure)) || *back.Met || back.Subject != 1 {
		t.Errorf("%+v (%v) from %s", back, err, raw)
	}
	if cells := strings.Join(back.cells(), "|"); !strings.Contains(cells, "|-|at least 0.6 x|**no**|") {
		t.Error(cells)
	}
}

func TestKeeperReplacesARowAndLeavesTheRest(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	document := filepath.Join(folder, "benchmarks.md")
	text := "before\n\n" + tableBegin + "\nold\n" + tableEnd + "\n\nafter\n"
	if err := os.WriteFile(document, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k := &keeper{record: filepath.Join(folder, "benchmarks.json"), document: document, about: Measured{Date: "2026-01-02", Commit: "abc", Machine: "m", Settings: "s"}}
	one, _ := find("push-100")
	two, _ := find("latency")
	for i, rate := range []float64{100, 200, 300} {
		r, name := one, "push-100"
		if i == 1 {
			r, name = two, "latency"
		}
		if err := k.keep(r, []Result{{Row: name, What: "what", Unit: "u", Subject: Number(rate), Figure: Number(rate)}}); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	want := "before\n\n" + tableBegin + `

| What | Here | Yardstick | Figure | Bar | Met | Row |
|---|---|---|---|---|---|---|
| what | 300 u |  | 300 |  |  | push-100 |
| what | 200 u |  | 200 |  |  | latency |

- 2026-01-02, commit abc, m; s: push-100, latency

` + tableEnd + "\n\nafter\n"
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
	if err := writeDocument(k.record, Record{}); err == nil {
		t.Error("written into a document that has no place for it")
	}
}

func TestNumbersHaveThreeDigitsThatCount(t *testing.T) {
	t.Parallel()
	for f, want := range map[float64]string{0.1234: "0.12", 9.994: "9.99", 12.34: "12.3", 1234.5: "1234", 123_456: "123 k", math.NaN(): "-"} {
		if got := number(f); got != want {
			t.Errorf("%g is %s, want %s", f, got, want)
		}
	}
}

func TestOneRowFromStackToDocument(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	document, record := filepath.Join(folder, "d.md"), filepath.Join(folder, "d.json")
	if err := os.WriteFile(document, []byte(tableBegin+"\n"+tableEnd+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, progress strings.Builder
	args := []string{"-rows", "both-100", "-pairs", "1", "-duration", "200ms", "-warmup", "0s", "-json", record, "-document", document}
	if err := run(t.Context(), args, &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	raw, err := os.ReadFile(document)
	if err != nil || !strings.Contains(string(raw), "| at least 0.25 x |") {
		t.Errorf("%s (%v)", raw, err)
	}
	var kept Record
	if raw, err = os.ReadFile(record); err == nil {
		err = json.Unmarshal(raw, &kept)
	}
	results := kept.Rows["both-100"].Results
	if err != nil || len(results) != 1 || len(results[0].Pairs) != 1 || results[0].Pairs[0].Subject.Seconds == 0 || len(results[0].Pairs[0].Subject.Usage) != 6 {
		t.Errorf("%+v (%v)", kept, err)
	}
}

func TestCommandLineIsChecked(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-rows", "nothing"}, {"-pairs", "0"}, {"-duration", "0s"}, {"more"}, {"-no-such-flag"}} {
		var out strings.Builder
		if err := run(t.Context(), args, &out, &out); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
	var out, help strings.Builder
	if err := run(t.Context(), []string{"-list"}, &out, &help); err != nil || strings.Count(out.String(), "\n") != len(table()) {
		t.Errorf("%v: %s", err, out.String())
	}
	if err := run(t.Context(), []string{"-help"}, &out, &help); err != nil || !strings.Contains(help.String(), "-rows") {
		t.Errorf("%v: %s", err, help.String())
	}
}
