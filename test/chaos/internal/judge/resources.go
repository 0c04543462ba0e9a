package judge

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"queen.internal/test/chaos/internal/stand"
)

// Resources is what a process holds.
type Resources struct{ Goroutines, Files int }

// slack is what a process may hold more than before: connections that are kept a while, pools that have grown to
// their size.
const slack = 80

// Hold asks every process of a stand. A process that does not answer is left out.
func Hold(ctx context.Context, s *stand.Stand) map[string]Resources {
	all := make(map[string]Resources)
	for _, p := range s.Processes() {
		n, err := goroutines(ctx, s.URL(p.Name()))
		if err != nil {
			continue
		}
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Stack.PID(p.Service, p.Number)))
		if err != nil {
			files = nil // only Linux tells
		}
		all[p.Name()] = Resources{n, len(files)}
	}
	return all
}

func goroutines(ctx context.Context, address string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/metrics/prometheus", http.NoBody)
	if err != nil {
		return 0, err
	}
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), "go_goroutines "); found {
			return strconv.Atoi(value)
		}
	}
	return 0, fmt.Errorf("%s does not tell its goroutines", address)
}

// Grown says what holds more than a tenth, and some slack, above what it held before.
func Grown(before, after map[string]Resources) (wrong []string) {
	for name, a := range after {
		b := before[name]
		if a.Goroutines > b.Goroutines*11/10+slack || a.Files > b.Files*11/10+slack {
			wrong = append(wrong, fmt.Sprintf("resources: %s held %+v before and %+v afterwards", name, b, a))
		}
	}
	return wrong
}

// sessionsOfPools is how many connections the pools of a stand's services may have together, by their defaults
// (docs/configuration.md), and a few that end just now.
const sessionsOfPools = 2*6 + 2*14 + 4 + 6 + 8

// Sessions says what is wrong with the services' sessions when nothing is under way: more than their pools may have, or one
// that sits in a transaction.
func Sessions(ctx context.Context, db *pgxpool.Pool) (wrong []string, err error) {
	var all, open int
	err = db.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE state LIKE 'idle in transaction%')
		FROM pg_stat_activity WHERE usename = 'queen'`).Scan(&all, &open)
	if err != nil {
		return nil, fmt.Errorf("count the sessions: %w", err)
	}
	if all > sessionsOfPools || open > 0 {
		wrong = append(wrong, fmt.Sprintf("resources: %d sessions of services, of which %d sit in a transaction", all, open))
	}
	return wrong, nil
}

// loudest is how many lines a second a service may write, and over how many seconds that is measured: a start writes a
// page at once. The line that each request leaves which was answered with an error is the clients' doing.
const (
	loudest  = 20
	loudOver = 5
)

// Loud looks through the logs for services that write too much. The second is the one of each line's own time.
func Loud(stackDir string) (wrong []string, err error) {
	paths, err := filepath.Glob(filepath.Join(stackDir, "logs", "*.log"))
	if err != nil {
		return nil, fmt.Errorf("list the logs: %w", err)
	}
	for _, path := range paths {
		if strings.HasPrefix(filepath.Base(path), "postgres") {
			continue
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read a log: %w", err)
		}
		perSpan := make(map[int64]int)
		for line := range strings.Lines(string(raw)) {
			stamp, _, _ := strings.Cut(line, " ")
			if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil && !strings.Contains(line, " http: request ") {
				perSpan[at.Unix()/loudOver]++
			}
		}
		for span, lines := range perSpan {
			if lines > loudest*loudOver {
				wrong = append(wrong, fmt.Sprintf("log: %s has %d lines in the %d s from %s on", filepath.Base(path), lines, loudOver,
					time.Unix(span*loudOver, 0).UTC().Format(time.TimeOnly)))
			}
		}
	}
	return wrong, nil
}
