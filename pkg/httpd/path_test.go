package httpd

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func FuzzRawPathIsRestoredWithoutChangingItsMeaning(f *testing.F) {
	for _, seed := range []string{
		"/a%2Fb", "/a%2F\u00e9", "/%25/%2f|", "/a\"b%2F", "/%C3%A9", "/a+b;c=d,e", "/[x]%2F", "/a%2F^`{}", "//%2F//é", "/%e9%2F\xe9",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !strings.HasPrefix(target, "/") {
			return
		}
		asked, _, _ := strings.Cut(target, "?")
		restoreRawPath(u)
		got := u.EscapedPath()
		if text, err := url.PathUnescape(got); err != nil || text != u.Path {
			t.Errorf("%q became %q, which reads %q (%v) instead of %q", target, got, text, err, u.Path)
		}
		if strings.Count(got, "/") != strings.Count(asked, "/") {
			t.Errorf("%q became %q, with other segments", target, got)
		}
	})
}

func BenchmarkRequest(b *testing.B) {
	bundle := newBundle()
	s, err := New(bundle.options)
	if err != nil {
		b.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/api/v1/pop/queue/a%2Fb?wait=true", http.NoBody)
	b.ReportAllocs()
	for b.Loop() {
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
}
