package daemon

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"queen.internal/pkg/logging"
)

// These set variables, so they do not run in parallel.

func TestProfilesAreServedWhereTheSettingSays(t *testing.T) {
	t.Setenv("QUEEN_PPROF_ADDR", "127.0.0.1:0")
	var out bytes.Buffer
	p, err := openProfiles(logging.New(&out, logging.Settings{}))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+/debug/pprof/`).FindString(out.String())
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(url + "goroutine?debug=1")
	if err != nil {
		t.Fatalf("%v; the log: %s", err, out.String())
	}
	body, err := io.ReadAll(answer.Body)
	if closed := answer.Body.Close(); err != nil || closed != nil {
		t.Fatal(err, closed)
	}
	if answer.StatusCode != http.StatusOK || !strings.Contains(string(body), "TestProfilesAreServedWhereTheSettingSays") {
		t.Errorf("%d %.200s", answer.StatusCode, body)
	}
}

func TestProfilesAreOffByDefaultAndNeverPublic(t *testing.T) {
	var out bytes.Buffer
	p, err := openProfiles(logging.New(&out, logging.Settings{}))
	if err != nil || p.server != nil || out.Len() > 0 {
		t.Fatalf("%+v (%v), the log: %s", p, err, out.String())
	}
	p.close()
	t.Setenv("QUEEN_PPROF_ADDR", "0.0.0.0:0")
	if _, err := openProfiles(logging.New(&out, logging.Settings{})); err == nil {
		t.Error("profiles for everybody")
	}
}
