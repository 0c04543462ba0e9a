package page_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"queen.internal/services/console/internal/page"
)

func serve(t *testing.T, version, path string, header http.Header) (*httptest.ResponseRecorder, bool) {
	t.Helper()
	p, err := page.New(version)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header = header
	w := httptest.NewRecorder()
	return w, p.Serve(w, r)
}

func TestPage(t *testing.T) {
	t.Parallel()

	t.Run("says what it is, its version, and where the cell's state is", func(t *testing.T) {
		t.Parallel()
		w, found := serve(t, "v1.2.3 <dirty>", "/", nil)
		body := w.Body.String()
		for _, part := range []string{"Queen", "v1.2.3 &lt;dirty&gt;", `href="health"`, `href="status"`} {
			if !strings.Contains(body, part) {
				t.Errorf("the page lacks %q", part)
			}
		}
		if !found || w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			t.Errorf("found %v, %d, %v", found, w.Code, w.Header())
		}
	})

	t.Run("loads nothing from elsewhere and runs no script", func(t *testing.T) {
		t.Parallel()
		w, _ := serve(t, "test", "/", nil)
		for _, part := range []string{"<script", "http://", "https://", "style=", "<style"} {
			if strings.Contains(w.Body.String(), part) {
				t.Errorf("the page has %q", part)
			}
		}
		if got := w.Header().Get("Content-Security-Policy"); !strings.Contains(got, "default-src 'none'") {
			t.Errorf("policy %q", got)
		}
	})

	t.Run("follows the reader's colour scheme", func(t *testing.T) {
		t.Parallel()
		w, found := serve(t, "test", "/style.css", nil)
		if !found || !strings.Contains(w.Body.String(), "prefers-color-scheme: dark") || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/css") {
			t.Errorf("found %v, %v", found, w.Header())
		}
	})

	t.Run("is not sent again while it has not changed", func(t *testing.T) {
		t.Parallel()
		first, _ := serve(t, "one", "/", nil)
		known := http.Header{"If-None-Match": {first.Header().Get("Etag")}}
		if again, _ := serve(t, "one", "/", known); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Errorf("the same page is %d with %d bytes", again.Code, again.Body.Len())
		}
		if other, _ := serve(t, "two", "/", known); other.Code != http.StatusOK {
			t.Errorf("another page is %d", other.Code)
		}
	})

	t.Run("leaves other paths alone", func(t *testing.T) {
		t.Parallel()
		for _, path := range []string{"/index.html", "/favicon.ico", "//", "/style.css/"} {
			if w, found := serve(t, "test", path, nil); found || len(w.Header()) > 0 {
				t.Errorf("%s is found: %v, %v", path, found, w.Header())
			}
		}
	})
}
