package logging

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// fixed is a logger whose lines all carry one time, given in a zone that is not UTC.
func fixed(s Settings) (*slog.Logger, *bytes.Buffer) {
	var out bytes.Buffer
	logger := New(&out, s)
	at := time.Date(2026, 8, 1, 12, 0, 0, 7_000_000, time.FixedZone("", 2*3600))
	logger.Handler().(*handler).out.now = func() time.Time { return at }
	return logger, &out
}

type masked struct{}

func (masked) LogValue() slog.Value { return slog.StringValue("<set:64 chars>") }

type brokenError struct{ text *string }

func (e *brokenError) Error() string { return *e.text }

// writeSamples logs one line of every sort.
func writeSamples(logger *slog.Logger) {
	For(logger, "mesh").Info("started", "server_id", "ingest-0", "port", 6633, "peers", "a:1,b:2", "auth", true)
	For(logger, "boot").Info("config: sync", "enabled", true, "secret", masked{}, "empty", "", "zone", "Zürich")
	logger.Warn("no target", "text", `with "quotes"`, "pair", "a=b", "path", `C:\x`, "newline", "a\nb", "bell", "\x07")
	logger.Error("forged\nline\x1b[31m", "err", errors.New("read: connection reset"), "nil_err", error((*brokenError)(nil)))
	logger.Debug("numbers", "u", uint64(math.MaxUint64), "i", int64(math.MinInt64), "f", 0.25, "nan", math.NaN(), "d", 1500*time.Millisecond)
	logger.Info("things", "t", time.Date(2026, 8, 1, 0, 0, 0, 5, time.UTC), "list", []int{1, 2}, "invalid", "\xff", "nothing", nil)
	logger.With("a", 1).WithGroup("g").With("b", 2).Info("groups", "c", 3, slog.Group("h", "d", 4), slog.Group("", "e", 5))
	logger.With("message", "m").Info("reserved", "level", "l", "timestamp", "t", slog.Attr{})
	logger.Info("target with the record", TargetKey, "spool", "pending", 3)
	logger.Log(context.Background(), slog.LevelDebug-4, "finest")
}

func TestLinesAreGolden(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]Settings{
		"text": {Filter: "trace"},
		"json": {Filter: "trace", JSON: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logger, out := fixed(settings)
			writeSamples(logger)
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJSONLinesAreFlatObjectsWithDistinctKeys(t *testing.T) {
	t.Parallel()
	logger, out := fixed(Settings{Filter: "trace", JSON: true})
	writeSamples(logger)
	for line := range strings.Lines(out.String()) {
		decoder := json.NewDecoder(strings.NewReader(line))
		seen := map[string]bool{}
		for i := 0; decoder.More() || i == 0; i++ {
			token, err := decoder.Token()
			if err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			if i == 0 {
				continue // the opening brace
			}
			key := token.(string)
			if seen[key] {
				t.Errorf("key %s twice in %s", key, line)
			}
			seen[key] = true
			if value, err := decoder.Token(); err != nil {
				t.Fatalf("%v in %s", err, line)
			} else if _, nested := value.(json.Delim); nested {
				t.Errorf("key %s is not flat in %s", key, line)
			}
		}
	}
}

func TestFilterSetsLevelsPerTarget(t *testing.T) {
	t.Parallel()
	const trace, debug, info, warn, failure = slog.LevelDebug - 4, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError
	for _, tc := range []struct {
		text       string
		other, pop slog.Level
	}{
		{"", info, info},
		{"debug", debug, debug},
		{" WARN ", warn, warn},
		{"info,queen::pop=debug", info, debug},
		{"pop=trace,error", failure, trace},
		{"off,pop=error", levelOff, failure},
		{"warn,unknown=debug", warn, warn},
		{"loud", info, info},
		{"warn,pop=loud", info, info},
		{"pop=debug,", info, debug},
	} {
		f := parseFilter(tc.text)
		if got := f.level("other"); got != tc.other {
			t.Errorf("%q: other targets from %v, want %v", tc.text, got, tc.other)
		}
		if got := f.level("pop"); got != tc.pop {
			t.Errorf("%q: pop from %v, want %v", tc.text, got, tc.pop)
		}
	}
}

func TestFilterAppliesToLoggersAndRecords(t *testing.T) {
	t.Parallel()
	logger, out := fixed(Settings{Filter: "info,pool=error"})
	For(logger, "pool").Warn("hidden")
	logger.Warn("hidden", TargetKey, "pool")
	logger.Debug("hidden")
	For(logger, "pool").Error("shown")
	if got, want := out.String(), "2026-08-01T10:00:00.007Z ERROR pool: shown\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if For(logger, "pool").Enabled(t.Context(), slog.LevelWarn) {
		t.Error("a filtered level is enabled")
	}
}

func TestLinesOfManyGoroutinesDoNotMix(t *testing.T) {
	t.Parallel()
	logger, out := fixed(Settings{})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			part := For(logger, "part").With("fixed", "value")
			for range 100 {
				part.Info("message", "n", 1)
			}
		})
	}
	group.Wait()
	want := strings.Repeat("2026-08-01T10:00:00.007Z INFO part: message fixed=value n=1\n", 800)
	if out.String() != want {
		t.Error("lines are mixed, lost or repeated")
	}
}

func TestSamplerWritesOneLinePerWindowAndCountsTheRest(t *testing.T) {
	t.Parallel()
	s := Sampler{Window: 10 * time.Second}
	start := time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		after      time.Duration
		suppressed int64
		ok         bool
	}{
		{0, 0, true},
		{time.Second, 0, false},
		{9 * time.Second, 0, false},
		{10 * time.Second, 2, true},
		{11 * time.Second, 0, false},
		{time.Minute, 1, true},
		{2 * time.Minute, 0, true},
	} {
		suppressed, ok := s.Allow(start.Add(step.after))
		if suppressed != step.suppressed || ok != step.ok {
			t.Errorf("after %v: %d, %v; want %d, %v", step.after, suppressed, ok, step.suppressed, step.ok)
		}
	}
}

func BenchmarkRequestLine(b *testing.B) {
	logger := For(New(discard{}, Settings{}), "http")
	b.ReportAllocs()
	for b.Loop() {
		logger.LogAttrs(b.Context(), slog.LevelInfo, "request", slog.String("method", "POST"), slog.String("route", "push"),
			slog.Int("status", 201), slog.Int("bytes", 1234), slog.Float64("duration_ms", 1.25))
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
