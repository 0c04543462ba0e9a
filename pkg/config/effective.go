package config

import (
	_ "embed"
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Block is one line of the effective settings: a subsystem and the values in force, secrets masked by their type.
type Block struct {
	Name  string
	Attrs []slog.Attr
}

// target is the part of the service these lines come from.
const target = "boot"

// LogEffective prints what settings, the struct that Load filled, came to: one line for each block, one that names the
// variables which are set but not read by this service, one warning for each number that was raised to its floor, and
// one warning for all QUEEN_ names that no service knows.
func LogEffective(logger *slog.Logger, settings any, blocks ...Block) {
	logEffective(logger, os.Environ(), settings, blocks)
}

func logEffective(logger *slog.Logger, environ []string, settings any, blocks []Block) {
	logger = logger.With("target", target)
	for _, block := range blocks {
		attrs := make([]any, len(block.Attrs))
		for i, attr := range block.Attrs {
			attrs[i] = attr
		}
		logger.Info("config: "+block.Name, attrs...)
	}
	fields, err := fieldsOf(reflect.Indirect(reflect.ValueOf(settings)))
	if err != nil {
		logger.Error("config: settings cannot be listed", "err", err)
		return
	}
	env := environment(environ)
	warnRaised(logger, env, fields)
	ignored, unknown := sortUnread(env, fields)
	if len(ignored) > 0 {
		logger.Info("config: ignored", "names", strings.Join(ignored, ","))
	}
	if len(unknown) > 0 {
		logger.Warn("config: unknown settings", "names", strings.Join(unknown, ","))
	}
}

func warnRaised(logger *slog.Logger, env map[string]string, fields []field) {
	for _, f := range fields {
		floor, ok := f.floor()
		if !ok {
			continue
		}
		var given Int
		if value := env[f.names[0]]; value != "" && given.Set(value) == nil && given < floor {
			logger.Warn("config: value raised to its floor", "name", f.names[0], "given", int64(given), "in_force", int64(floor))
		}
	}
}

func environment(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	return env
}

// names.txt lists every variable that some service, tool or older release reads; a trailing * stands for a family.
// People paste one block of settings everywhere, so a name of another service is no mistake.
//
//go:embed names.txt
var knownNames string

// sortUnread divides the variables that settings do not read: those known elsewhere, and those with our prefix that
// nobody knows, most likely misspelt.
func sortUnread(env map[string]string, fields []field) (ignored, unknown []string) {
	read := map[string]bool{}
	for _, f := range fields {
		for _, name := range f.names {
			read[name] = true
		}
	}
	for name, value := range env {
		switch {
		case read[name]:
		case isKnown(name):
			ignored = append(ignored, name)
		case strings.HasPrefix(name, "QUEEN_") && !isServiceLink(name, value):
			unknown = append(unknown, name)
		}
	}
	slices.Sort(ignored)
	slices.Sort(unknown)
	return ignored, unknown
}

func isKnown(name string) bool {
	for known := range strings.FieldsSeq(knownNames) {
		if prefix, family := strings.CutSuffix(known, "*"); known == name || family && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

var serviceLink = regexp.MustCompile(`_SERVICE_(HOST|PORT)|_PORT_\d+_(TCP|UDP)`)

// isServiceLink recognises what Kubernetes sets for a Service named queen-something; nobody wrote it by hand.
func isServiceLink(name, value string) bool {
	return serviceLink.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
}
