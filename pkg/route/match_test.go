package route_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/route"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, method, path string
		verdict            route.Verdict
		row                string
		allow              []string
	}{
		{"literal path", "POST", "/api/v1/push", route.Found, "push", nil},
		{"literal that is a prefix of others", "GET", "/api/v1/pop", route.Found, "pop_discover", nil},
		{"one name", "GET", "/api/v1/pop/queue/orders", route.Found, "pop_queue", nil},
		{"two names", "GET", "/api/v1/pop/queue/orders/partition/eu-1", route.Found, "pop_partition", nil},
		{"encoded slash in a name", "GET", "/api/v1/pop/queue/a%2Fb", route.Found, "pop_queue", nil},
		{"encoded backslash in a name", "GET", "/api/v1/pop/queue/a%5cb", route.Found, "pop_queue", nil},
		{"plus, blank, percent and unicode in names", "GET", "/api/v1/pop/queue/a+b%20c%25/partition/%C3%A4", route.Found, "pop_partition", nil},
		{"raw unicode in a name", "GET", "/api/v1/pop/queue/ä", route.Found, "pop_queue", nil},
		{"dots inside a name", "GET", "/api/v1/pop/queue/a.b..c", route.Found, "pop_queue", nil},
		{"three dots are a name", "GET", "/api/v1/pop/queue/...", route.Found, "pop_queue", nil},
		{"name in the middle", "POST", "/api/v1/lease/0199/extend", route.Found, "lease_extend", nil},
		{"a name may spell a literal", "GET", "/api/v1/pop/queue/partition/partition/queue", route.Found, "pop_partition", nil},
		{"health", "GET", "/health", route.Found, "health", nil},

		{"wrong verb", "GET", "/api/v1/push", route.WrongVerb, "", []string{"POST"}},
		{"HEAD does not pop", "HEAD", "/api/v1/pop/queue/orders", route.WrongVerb, "", []string{"GET"}},
		{"wrong verb on a name", "DELETE", "/api/v1/lease/0199/extend", route.WrongVerb, "", []string{"POST"}},

		{"unknown", "GET", "/api/v1/nothing", route.Unknown, "", nil},
		{"prefix of a route", "GET", "/api/v1", route.Unknown, "", nil},
		{"longer than a route", "POST", "/api/v1/push/more", route.Unknown, "", nil},
		{"trailing slash", "POST", "/api/v1/push/", route.Unknown, "", nil},
		{"empty name", "GET", "/api/v1/pop/queue/", route.Unknown, "", nil},
		{"empty segment", "POST", "/api//v1/push", route.Unknown, "", nil},
		{"case counts", "POST", "/API/v1/push", route.Unknown, "", nil},
		{"escaped letter is another path", "POST", "/%61pi/v1/push", route.Unknown, "", nil},
		{"root", "GET", "/", route.Unknown, "", nil},

		{"dot segment", "POST", "/api/v1/./push", route.Refused, "", nil},
		{"dot-dot segment", "POST", "/console/../api/v1/push", route.Refused, "", nil},
		{"dot-dot as a name", "GET", "/api/v1/pop/queue/..", route.Refused, "", nil},
		{"encoded dots", "GET", "/api/v1/pop/queue/%2e%2E", route.Refused, "", nil},
		{"half encoded dots", "GET", "/x/.%2e/y", route.Refused, "", nil},
		{"encoded slash in the routed prefix", "POST", "/api%2Fv1/push", route.Refused, "", nil},
		{"lower-case encoded slash", "POST", "/api/v1%2fpush", route.Refused, "", nil},
		{"backslash", "POST", `/api\v1/push`, route.Refused, "", nil},
		{"encoded backslash", "POST", "/api%5Cv1/push", route.Refused, "", nil},
		{"encoded slash beside raw unicode", "GET", "/api/v1/pop/queue/a%2Fä", route.Found, "pop_queue", nil},
		{"no leading slash", "POST", "api/v1/push", route.Refused, "", nil},
		{"empty", "GET", "", route.Refused, "", nil},
		{"asterisk form", "OPTIONS", "*", route.Refused, "", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := route.Classify(test.method, test.path)
			if got.Verdict != test.verdict || got.Row.Name != test.row {
				t.Errorf("Classify(%s %s) = %v %q, want %v %q", test.method, test.path, got.Verdict, got.Row.Name, test.verdict, test.row)
			}
			if diff := cmp.Diff(test.allow, got.Allow); diff != "" {
				t.Errorf("allowed methods differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for _, row := range route.Table {
		if names[row.Name] {
			t.Errorf("two rows are named %s", row.Name)
		}
		names[row.Name] = true
		if row.Role == "" || row.Level == "" || row.Class == "" {
			t.Errorf("row %s lacks a role, a level or a class: %+v", row.Name, row)
		}
		sample := strings.ReplaceAll(row.Path, ":", "some-")
		if got := route.Classify(row.Method, sample); got.Verdict != route.Found || got.Row != row {
			t.Errorf("Classify(%s %s) = %v %s, want row %s", row.Method, sample, got.Verdict, got.Row.Name, row.Name)
		}
	}
}

func TestMatcher(t *testing.T) {
	t.Parallel()
	t.Run("goes back to a name when a literal leads nowhere", func(t *testing.T) {
		t.Parallel()
		m := matcher(t, route.Row{Name: "fixed", Method: "GET", Path: "/q/stats/all"}, route.Row{Name: "named", Method: "GET", Path: "/q/:queue/depth"})
		if got := m.Classify("GET", "/q/stats/depth"); got.Row.Name != "named" {
			t.Errorf("a queue called stats is %v %q, want row named", got.Verdict, got.Row.Name)
		}
		if got := m.Classify("GET", "/q/stats/all"); got.Row.Name != "fixed" {
			t.Errorf("the fixed path is %v %q, want row fixed", got.Verdict, got.Row.Name)
		}
	})
	t.Run("lists every method of a path in order", func(t *testing.T) {
		t.Parallel()
		m := matcher(t, route.Row{Name: "put", Method: "PUT", Path: "/q"}, route.Row{Name: "delete", Method: "DELETE", Path: "/q"})
		if diff := cmp.Diff([]string{"DELETE", "PUT"}, m.Classify("GET", "/q").Allow); diff != "" {
			t.Errorf("allowed methods differ (-want +got):\n%s", diff)
		}
	})
	t.Run("refuses two rows for one path", func(t *testing.T) {
		t.Parallel()
		_, err := route.NewMatcher([]route.Row{{Name: "one", Method: "GET", Path: "/q/:a"}, {Name: "two", Method: "GET", Path: "/q/:b"}})
		if err == nil || !strings.Contains(err.Error(), "one") || !strings.Contains(err.Error(), "two") {
			t.Errorf("error %v does not name both rows", err)
		}
	})
	t.Run("refuses a path without a leading slash", func(t *testing.T) {
		t.Parallel()
		if _, err := route.NewMatcher([]route.Row{{Name: "one", Method: "GET", Path: "q"}}); err == nil {
			t.Error("a relative path is accepted")
		}
	})
}

func matcher(t *testing.T, rows ...route.Row) *route.Matcher {
	t.Helper()
	m, err := route.NewMatcher(rows)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func FuzzClassify(f *testing.F) {
	for _, seed := range []string{"/api/v1/push", "/api/v1/pop/queue/a%2Fb", "/a/../b", "/%2e%2E/", "//", "", "%", "/%2", `\`} {
		f.Add("GET", seed)
	}
	f.Fuzz(func(t *testing.T, method, path string) {
		got := route.Classify(method, path)
		switch got.Verdict {
		case route.Found:
			if got.Row.Method != method || strings.Count(got.Row.Path, "/") != strings.Count(path, "/") {
				t.Errorf("%q %q is found as %+v", method, path, got.Row)
			}
		case route.WrongVerb:
			if len(got.Allow) == 0 {
				t.Errorf("%q %q: wrong verb without a right one", method, path)
			}
		case route.Unknown, route.Refused:
			if got.Row != (route.Row{}) {
				t.Errorf("%q %q is %v with row %s", method, path, got.Verdict, got.Row.Name)
			}
		}
	})
}

func BenchmarkClassify(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if route.Classify("GET", "/api/v1/pop/queue/orders/partition/eu-1").Verdict != route.Found {
			b.Fatal("not found")
		}
	}
}
