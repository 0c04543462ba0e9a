package httpd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/auth"
	"queen.internal/pkg/health"
	"queen.internal/pkg/logging"
	"queen.internal/pkg/metrics"
	"queen.internal/pkg/route"
)

const (
	readHeaderTimeout = 10 * time.Second
	// idleTimeout must be above what clients' transports keep a connection for (90 s in most): the side that closes
	// first is the one whose next request cannot be lost.
	idleTimeout    = 120 * time.Second
	maxHeaderBytes = 64 << 10
)

// Options describe a service's HTTP side.
type Options struct {
	Role    route.Role // whose rows are mounted, besides those of every service
	Logger  *slog.Logger
	Metrics *metrics.Registry // gets the request histogram, answers /metrics/prometheus
	Health  *health.Checks    // answers /health, /livez, /readyz and /status; turned off when the stop begins

	Addr            string        // host:port; port 0 picks a free one
	MaxBodyBytes    int64         // larger requests answer 413; 0 means no limit
	DrainDelay      time.Duration // how long to serve on after readiness went off
	ShutdownTimeout time.Duration // how long requests in flight may take after that
	Tenancy         bool          // believe x-queen-tenant; off, the header is not read

	Mesh Mesh // answers what the mesh of this process does, and tells the others of a stop; nil: it has none

	Auth *auth.Verifier // who may call what; nil: everybody everything

	Handlers map[string]gin.HandlerFunc          // by row name: exactly the rows of Role
	Foreign  func(row route.Row) gin.HandlerFunc // answers rows of other roles; nil: 404 that names the owner
	Fallback gin.HandlerFunc                     // GET and HEAD outside the API; nil: 404

	ConnContext func(ctx context.Context, c net.Conn) context.Context // what a connection's requests share; nil: nothing
}

// Mesh tells of the mesh. Services pass their *mesh.Mesh; those without one pass nothing.
type Mesh interface {
	ServeStats(w http.ResponseWriter, r *http.Request)
	ServeSharedState(w http.ResponseWriter, r *http.Request)
	Drain() // must not block
}

// Server is one listener with its routes.
type Server struct {
	o        Options
	logger   *slog.Logger
	engine   *gin.Engine
	observed observer
	draining chan struct{} // closed by Run when the stop begins
	requests tracker
	fresh    freshConns

	mu       sync.Mutex
	listener net.Listener
}

// New builds the server. It refuses a row of the role without a handler and a handler without such a row.
func New(o Options) (*Server, error) {
	observed, err := newObserver(o)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, logger: logging.For(o.Logger, "http"), observed: observed, draining: make(chan struct{})}
	gin.SetMode(gin.ReleaseMode) // otherwise gin prints every route to standard output
	s.engine = gin.New()
	// Names in paths are single segments on the raw bytes: a%2Fb is one name, and + is a plus sign. Param unescapes.
	s.engine.UseEscapedPath = true
	s.engine.UnescapePathValues = false
	s.engine.RedirectTrailingSlash = false
	s.engine.RedirectFixedPath = false
	s.engine.HandleMethodNotAllowed = true
	s.engine.ForwardedByClientIP = false
	if err := s.engine.SetTrustedProxies(nil); err != nil {
		return nil, fmt.Errorf("trust no proxy: %w", err)
	}
	if err := s.mount(route.Table); err != nil {
		return nil, err
	}
	return s, nil
}

// Handler is the server without its listener, for tests. Draining never closes on it.
func (s *Server) Handler() http.Handler { return s }

// ServeHTTP prepares a request for gin and answers it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.enter()
	defer s.requests.leave()
	if serverOf(r.Context()) == nil { // Run puts it into the base context, once for all requests
		r = r.WithContext(context.WithValue(r.Context(), serverKey{}, s))
	}
	restoreRawPath(r.URL)
	out := &response{ResponseWriter: w, draining: s.draining}
	if r.Body != nil && r.Body != http.NoBody {
		// On a copy: net/http asks the body of its own request whether it was left unread. Only then does it linger before
		// it closes the connection, without which the client loses a refusal to a reset.
		r = r.WithContext(r.Context())
		body := newPatientBody(w, r.Body)
		defer body.retire()
		r.Body = body
		if s.o.MaxBodyBytes > 0 {
			r.Body = http.MaxBytesReader(w, body, s.o.MaxBodyBytes)
		}
	}
	s.engine.ServeHTTP(out, r)
}

// Listen takes the address. Run does it when nobody did.
func (s *Server) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp", s.o.Addr)
	if err != nil {
		if errors.Is(err, errAddressInUse) {
			return fmt.Errorf("listen on %s: the address is in use (see PORT and QUEEN_BIND_ADDR)", s.o.Addr)
		}
		return fmt.Errorf("listen on %s: %w", s.o.Addr, err)
	}
	s.listener = listener
	return nil
}

// Addr is the address taken, nil before Listen.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// URL is the address taken, as a base URL that this machine can use; empty before Listen.
func (s *Server) URL() string {
	addr, ok := s.Addr().(*net.TCPAddr)
	if !ok {
		return ""
	}
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, fmt.Sprint(addr.Port))
}
