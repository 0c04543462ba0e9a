package httpapi

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"queen.internal/pkg/httpd"
)

func (s *service) configure(body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/v1/configure", strings.NewReader(body)))
	return w
}

// What is wrong with a request is told whether or not the database is there.
func TestConfigure_RefusesBadRequestsBeforeItAsksTheDatabase(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body   string
		status int
		answer string
	}{
		"not JSON":         {`{"queue":`, 400, `{"error":"bad body: the JSON ends where a value should follow (byte 9)"}`},
		"no queue":         {`{"options":{}}`, 400, `{"error":"queue is required"}`},
		"number for queue": {`{"queue":5}`, 400, `{"error":"queue is required"}`},
		"another mode":     {`{"queue":"q","mode":"add"}`, 400, `{"error":"mode must be \"merge\" or \"replace\", got \"add\""}`},
		"word for number":  {`{"queue":"q","options":{"leaseTime":"soon"}}`, 400, `{"error":"leaseTime is not an integer"}`},
		"limit of one":     {`{"queue":"q","options":{"deliveryLimit":1}}`, 400, `{"error":"deliveryLimit is neither 0 (off) nor at least 2"}`},
		"sink time":        {`{"queue":"q","options":{"retentionSinkHoldMaxSeconds":1}}`, 400, `{"error":"retentionSinkHoldMaxSeconds is not between 60 and 31536000","invalid":true}`},
		"no key":           {`{"queue":"q","options":{"encryptionEnabled":true}}`, 400, `{"error":"encryptionEnabled needs a key, and this server has none (QUEEN_ENCRYPTION_KEY)"}`},
		"too long":         {`{"queue":"q","x":"` + strings.Repeat("x", 1<<20) + `"}`, 413, `{"error":"request body is larger than 1048576 bytes"}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(s *service, _ *httpd.Options) { s.ready = errors.New("down") })
			w := s.configure(test.body)
			if w.Code != test.status || w.Body.String() != test.answer || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
			}
		})
	}
}

func TestConfigure_BeforeTheSchemaIsThere(t *testing.T) {
	t.Parallel()
	s := serve(t, func(s *service, _ *httpd.Options) { s.ready = errors.New("connect to host=secret") })
	w := s.configure(`{"queue":"q","options":{"encryptionEnabled":false}}`)
	if w.Code != 503 || w.Body.String() != `{"error":"PostgreSQL cannot configure queues yet: it does not answer"}` || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
}
