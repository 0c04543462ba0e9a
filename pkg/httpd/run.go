package httpd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"queen.internal/pkg/backoff"
)

// cutWait is what a handler gets to notice that its request was cut.
const cutWait = time.Second

var (
	errAddressInUse error = syscall.EADDRINUSE
	errCut                = errors.New("the service stopped before the request was done")
)

// Run serves until ctx ends, then stops in order. It returns nil after an orderly stop, also one that had to cut
// requests; an error means that the server could not listen or accept.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(); err != nil {
		return err
	}
	base, cut := context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), serverKey{}, s))
	defer cut(nil)
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnState:         s.fresh.track,
		ConnContext:       s.o.ConnContext,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(s.listener) }()
	select {
	case err := <-ended:
		s.o.Health.Drain()
		s.cut(server, cut)
		return fmt.Errorf("accept connections on %s: %w", s.listener.Addr(), err)
	case <-ctx.Done():
	}
	s.stop(ctx, server, cut)
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("accept connections on %s: %w", s.listener.Addr(), err)
	}
	return nil
}

// stop is the ordered stop that the package comment describes.
func (s *Server) stop(ctx context.Context, server *http.Server, cut context.CancelCauseFunc) {
	ctx = context.WithoutCancel(ctx)
	s.o.Health.Drain()
	if s.o.Mesh != nil {
		s.o.Mesh.Drain()
	}
	close(s.draining)
	s.logger.Info("draining", "in_flight", s.requests.count(), "delay", s.o.DrainDelay)
	_ = backoff.Sleep(ctx, s.o.DrainDelay) // this context does not end
	// net/http waits 5 s for a connection that has not asked anything yet.
	s.fresh.close()
	limited, cancel := context.WithTimeout(ctx, s.o.ShutdownTimeout)
	defer cancel()
	if err := server.Shutdown(limited); err == nil {
		return
	}
	s.logger.Warn("requests cut at shutdown", "in_flight", s.requests.count(), "after", s.o.ShutdownTimeout)
	s.cut(server, cut)
}

// cut ends what is in flight: contexts first, so that handlers know why their connection is gone.
func (s *Server) cut(server *http.Server, cut context.CancelCauseFunc) {
	cut(errCut)
	if err := server.Close(); err != nil {
		s.logger.Warn("close connections", "err", err)
	}
	wait := time.NewTimer(cutWait)
	defer wait.Stop()
	select {
	case <-s.requests.idle():
	case <-wait.C:
		s.logger.Warn("handlers did not end after the cut", "in_flight", s.requests.count())
	}
}
