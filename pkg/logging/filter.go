package logging

import (
	"log/slog"
	"math"
	"strings"
)

const (
	levelTrace = slog.LevelDebug - 4
	levelOff   = slog.Level(math.MaxInt)
)

// filter is the lowest level written, with exceptions for single targets.
type filter struct {
	lowest  slog.Level
	targets map[string]slog.Level
}

func (f filter) level(target string) slog.Level {
	if level, ok := f.targets[target]; ok {
		return level
	}
	return f.lowest
}

// parseFilter reads "level" and "target=level" parts, separated by commas. A bare level is the lowest for all targets,
// the last one counts. Targets may carry the older spelling's prefix "queen::".
// When a part cannot be read the whole filter is info: a service that logs too little because of a misspelt level
// would be found out during an incident.
func parseFilter(text string) filter {
	f := filter{lowest: slog.LevelInfo, targets: map[string]slog.Level{}}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		target, name, pair := strings.Cut(part, "=")
		if !pair {
			name = target
		}
		level, ok := parseLevel(name)
		if !ok {
			return filter{lowest: slog.LevelInfo}
		}
		if pair {
			f.targets[strings.TrimPrefix(strings.TrimSpace(target), "queen::")] = level
		} else {
			f.lowest = level
		}
	}
	return f
}

func parseLevel(name string) (slog.Level, bool) {
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "trace":
		return levelTrace, true
	case "debug":
		return slog.LevelDebug, true
	case "info":
		return slog.LevelInfo, true
	case "warn", "warning":
		return slog.LevelWarn, true
	case "error":
		return slog.LevelError, true
	case "off":
		return levelOff, true
	default:
		return 0, false
	}
}
