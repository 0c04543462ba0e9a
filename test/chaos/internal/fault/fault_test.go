package fault

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/test/chaos/internal/stand"
)

// drawn are many doses of a fault in words.
func drawn(f Fault, seed uint64) (all []string) {
	d := &Draw{Rand: rand.New(rand.NewPCG(seed, 1)), Stand: &stand.Stand{}, Longest: 10 * time.Second}
	for range 200 {
		dose := f.Draw(d)
		all = append(all, dose.What+" "+dose.For.String())
	}
	return all
}

func TestASeedRepeatsItsDoses(t *testing.T) {
	t.Parallel()
	for _, f := range Faults() {
		first := drawn(f, 7)
		if diff := cmp.Diff(first, drawn(f, 7)); diff != "" {
			t.Errorf("%s: %s", f.Name, diff)
		}
		if slices.Equal(first, drawn(f, 8)) {
			t.Errorf("%s: another seed draws the same", f.Name)
		}
	}
}

// A run is planned whole: every fault comes, two at once at the end, and never two on the same thing.
func TestAPlanFollowsFromItsSeed(t *testing.T) {
	t.Parallel()
	pairs := 0
	for seed := range uint64(20) {
		told := func() (texts []string) {
			r := Runner{Stand: &stand.Stand{}, Faults: Faults(), Seed: seed, Longest: 4 * time.Second, Pause: time.Second}
			seen := map[string]bool{}
			for _, next := range r.plan(30 * time.Second) {
				var taken []string
				for i, d := range next.doses {
					texts = append(texts, d.What+d.For.String()+next.pause.String())
					seen[next.faults[i].Name] = true
					for _, on := range d.On {
						if slices.Contains(taken, on) {
							t.Errorf("seed %d: two doses on %s", seed, on)
						}
					}
					taken = append(taken, d.On...)
				}
				pairs += len(next.doses) / 2
			}
			if len(seen) != len(Faults()) {
				t.Errorf("seed %d: only %v", seed, seen)
			}
			return texts
		}
		if diff := cmp.Diff(told(), told()); diff != "" {
			t.Errorf("seed %d: %s", seed, diff)
		}
	}
	if pairs == 0 {
		t.Error("never two at once")
	}
}

func TestDosesAreWholeAndBounded(t *testing.T) {
	t.Parallel()
	var seen []string
	for _, f := range Faults() {
		if f.Name == "" || f.Code == "" || f.About == "" || slices.Contains(seen, f.Name) {
			t.Errorf("%+v", f)
		}
		seen = append(seen, f.Name)
		d := &Draw{Rand: rand.New(rand.NewPCG(1, 1)), Stand: &stand.Stand{}, Longest: 2500 * time.Millisecond}
		for range 200 {
			dose := f.Draw(d)
			if dose.What == "" || len(dose.On) == 0 || dose.For < 0 || dose.For > d.Longest || dose.Strike == nil || dose.Heal == nil {
				t.Fatalf("%s: %+v", f.Name, dose)
			}
		}
	}
	if found, err := Find([]string{"f5", "kill"}); err != nil || len(found) != 2 || found[0].Name != "cut" {
		t.Errorf("%+v, %v", found, err)
	}
}

// Only what was added behind the records differs: nothing that was answered is lost.
func TestEditsKeepEveryRecord(t *testing.T) {
	t.Parallel()
	s := &stand.Stand{Spool: t.TempDir()}
	folder := filepath.Join(s.Spool, "ingest-1.0001")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	paths := []string{filepath.Join(folder, "0000000001.spool"), filepath.Join(folder, "0000000002.spool")}
	texts := []string{"the first file", "the second one"}
	changed := 0
	for seed := range uint64(50) {
		for i, path := range paths {
			if err := os.WriteFile(path, []byte(texts[i]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if did, err := edit(s, ingests[0], rand.New(rand.NewPCG(seed, 1))); err != nil || !did {
			t.Fatal(did, err)
		}
		files, err := spoolFiles(s)
		if err != nil {
			t.Fatal(err)
		}
		var whole []string
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range texts {
				if len(raw) >= len(text) && string(raw[:len(text)]) == text {
					whole = append(whole, text)
				}
			}
			if len(raw) != len(texts[0]) {
				changed++
			}
		}
		if !slices.Contains(whole, texts[0]) || !slices.Contains(whole, texts[1]) {
			t.Errorf("seed %d left %v", seed, whole)
		}
		_ = os.Remove(filepath.Join(folder, "9999999999.spool")) // most edits leave none
	}
	if changed == 0 {
		t.Error("no tail was torn")
	}
	if did, err := edit(s, ingests[1], rand.New(rand.NewPCG(1, 1))); did || err != nil {
		t.Errorf("the other ingest has no spool: %v, %v", did, err)
	}
}
