package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"queen.internal/pkg/config"
	"queen.internal/pkg/logging"
)

// profiles answers /debug/pprof on a listener of its own while the service works.
type profiles struct {
	server *http.Server // nil while it is off
	ended  chan struct{}
}

// openProfiles listens if the environment asks for it. Close must be called.
func openProfiles(logger *slog.Logger) (*profiles, error) {
	p := &profiles{ended: make(chan struct{})}
	settings := struct{ config.Profiling }{}
	if err := config.Load(&settings); err != nil {
		return nil, err
	}
	if settings.PprofAddr == "" {
		close(p.ended)
		return p, nil
	}
	listener, err := net.Listen("tcp", settings.PprofAddr)
	if err != nil {
		return nil, fmt.Errorf("QUEEN_PPROF_ADDR: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	logger = logging.For(logger, "pprof")
	logger.Info("listening", "url", "http://"+listener.Addr().String()+"/debug/pprof/")
	go func() {
		defer close(p.ended)
		if err := p.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("profiles end here", "err", err) // the service does not
		}
	}()
	return p, nil
}

// close ends the listener and profiles under way.
func (p *profiles) close() {
	if p.server != nil {
		_ = p.server.Close() // nothing is owed to whoever is profiling
	}
	<-p.ended
}
