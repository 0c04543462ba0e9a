package mesh

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"queen.internal/pkg/logging"
)

// nodeLog is what the embedded server says. It is chatty and repeats itself while a peer is away, so all of it is DEBUG;
// refused connections are counted and told once in a while.
type nodeLog struct {
	logger  *slog.Logger
	refused func()
	fatal   chan error // what keeps the node from starting; holds one
	sampler logging.Sampler
}

func newNodeLog(logger *slog.Logger, refused func()) *nodeLog {
	return &nodeLog{
		logger: logger, refused: refused, fatal: make(chan error, 1), sampler: logging.Sampler{Window: 30 * time.Second},
	}
}

func (l *nodeLog) Noticef(format string, v ...any) { l.debug(format, v) }
func (l *nodeLog) Debugf(format string, v ...any)  { l.debug(format, v) }
func (l *nodeLog) Tracef(format string, v ...any)  { l.debug(format, v) }
func (l *nodeLog) Warnf(format string, v ...any)   { l.debug(format, v) }

// refusals are the parts of the server's messages that mean that somebody could not prove who they are, or speaks another
// protocol. The test of refused nodes would notice when a newer server words them differently.
var refusals = []string{
	"TLS route handshake error", "uthentication", "uthorization", "cluster name",
}

// farewells are handshakes that ended because somebody went away.
var farewells = []string{"EOF", "reset by peer", "broken pipe", "use of closed"}

// Errorf counts refused connections.
func (l *nodeLog) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	for _, part := range refusals {
		if !strings.Contains(text, part) || slices.ContainsFunc(farewells, func(end string) bool { return strings.Contains(text, end) }) {
			continue
		}
		l.refused()
		if suppressed, ok := l.sampler.Allow(time.Now()); ok {
			l.logger.Warn("connection refused", "err", text, "suppressed", suppressed)
		}
		return
	}
	l.logger.Debug("node", "text", text)
}

// Fatalf is a listener that could not be opened. The server goes on without it.
func (l *nodeLog) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Errorf(format, v...):
	default:
	}
}

func (l *nodeLog) debug(format string, v []any) {
	l.logger.Debug("node", "text", fmt.Sprintf(format, v...))
}
