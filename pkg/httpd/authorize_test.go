package httpd

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/auth"
	"queen.internal/pkg/config"
	"queen.internal/pkg/route"
	"queen.internal/pkg/testkit"
)

// secret signs the tokens of these tests.
const secret = "secret"

// guarded is a bundle that asks for tokens. Its handlers answer with the subject.
func guarded() *bundle {
	b := newBundle()
	for name := range b.options.Handlers {
		b.options.Handlers[name] = func(c *gin.Context) { JSON(c, http.StatusOK, Subject(c)) }
	}
	settings := config.NewAuth()
	settings.Enabled, settings.Secret = true, secret
	b.options.Auth = auth.FromSettings(settings, slog.New(slog.DiscardHandler))
	return b
}

// as sends the token of somebody with that role; their subject has the same name.
func as(t *testing.T, role string) func(*http.Request) {
	t.Helper()
	return withHeader("Authorization", "Bearer "+testkit.RoleToken(t, secret, role, role))
}

func TestAuthorizeAsksForTheRowsLevel(t *testing.T) {
	t.Parallel()
	s := guarded().server(t)
	const forbidden, required = `{"error":"Insufficient permissions"}`, `{"error":"Authentication required"}`
	for _, row := range route.Table {
		path := pathOf(row)
		bare := call(s, row.Method, path)
		if row.Level == route.Public {
			if bare.Status != http.StatusOK {
				t.Errorf("%s without a token: %d %s", row.Name, bare.Status, bare.Body)
			}
			continue
		}
		bare.want(t, http.StatusUnauthorized, required)
		if got := bare.Header.Get("WWW-Authenticate"); got != "Bearer" {
			t.Errorf("%s: WWW-Authenticate %q", row.Name, got)
		}
		for role, passes := range map[string]bool{
			"read-only":  row.Level == route.ReadOnly,
			"write-only": row.Level == route.WriteOnly,
			"read-write": row.Level != route.Admin,
			"admin":      true,
		} {
			got := call(s, row.Method, path, as(t, role))
			switch {
			case !passes:
				got.want(t, http.StatusForbidden, forbidden)
			case got.Status == http.StatusUnauthorized || got.Status == http.StatusForbidden:
				t.Errorf("%s: %d %s", row.Name, got.Status, got.Body)
			}
		}
		call(s, row.Method, path, withHeader("Authorization", "x")).want(t, http.StatusUnauthorized, `{"error":"Bad token header"}`)
	}
}

func TestAuthorizeGivesTheHandlerTheSubject(t *testing.T) {
	t.Parallel()
	s := guarded().server(t)
	call(s, "POST", "/api/v1/ack", as(t, "admin")).want(t, http.StatusOK, `"admin"`)
	call(s, "POST", "/api/v1/ack", withHeader("authorization", testkit.RoleToken(t, secret, "read-write", "somebody"))).want(t, http.StatusOK, `"somebody"`)
	call(s, "POST", "/api/v1/ack", withHeader("Authorization", testkit.RoleToken(t, secret, "admin", ""))).want(t, http.StatusOK, `""`)
}

func TestAuthorizeIsOffWithoutAVerifier(t *testing.T) {
	t.Parallel()
	b := guarded()
	b.options.Auth = nil
	s := b.server(t)
	// A token that nobody verified says nothing.
	call(s, "POST", "/api/v1/ack", as(t, "admin")).want(t, http.StatusOK, `""`)
	call(s, "GET", "/status").want(t, http.StatusOK, `{"status":"ok","engine":"segments-go"}`)
}

func TestAuthorizeComesBeforeEverythingElse(t *testing.T) {
	t.Parallel()
	b := guarded()
	b.options.Tenancy = true
	b.options.Fallback = func(c *gin.Context) { JSON(c, http.StatusOK, "page") }
	s := b.server(t)
	const required = `{"error":"Authentication required"}`
	// Neither the tenant, the body, the owner of a route nor its absence is told to strangers.
	call(s, "POST", "/api/v1/ack", withHeader("x-queen-tenant", "nonsense")).want(t, http.StatusUnauthorized, required)
	call(s, "POST", "/api/v1/push").want(t, http.StatusUnauthorized, required)
	call(s, "GET", "/api/v1/nothing").want(t, http.StatusUnauthorized, required)
	call(s, "DELETE", "/api/v1/ack").want(t, http.StatusUnauthorized, required)
	call(s, "GET", "/robots.txt").want(t, http.StatusUnauthorized, required)
	large := call(s, "POST", "/api/v1/ack", withBody(string(make([]byte, 5000))))
	large.want(t, http.StatusUnauthorized, required)
	if large.Header.Get("Connection") != "close" {
		t.Error("the body of a refused request is taken")
	}

	call(s, "POST", "/api/v1/ack", as(t, "admin"), withHeader("x-queen-tenant", "nonsense")).
		want(t, http.StatusBadRequest, `{"error":"invalid x-queen-tenant header (must be a UUID)"}`)
	call(s, "GET", "/api/v1/nothing", as(t, "read-write")).want(t, http.StatusNotFound, `{"error":"Not Found","code":"no_such_route"}`)
	call(s, "GET", "/api/v1/nothing", as(t, "read-only")).want(t, http.StatusForbidden, `{"error":"Insufficient permissions"}`)
	call(s, "GET", "/api/v1/stats/refresh", as(t, "read-write")).want(t, http.StatusForbidden, `{"error":"Insufficient permissions"}`)
	if got := call(s, "DELETE", "/api/v1/ack", as(t, "read-write")); got.Status != http.StatusMethodNotAllowed {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	// The page and what it loads are open; it has to sign in from there.
	for _, path := range []string{"/", "/assets/app.js", "/favicon.ico"} {
		call(s, "GET", path).want(t, http.StatusOK, `"page"`)
	}
}
