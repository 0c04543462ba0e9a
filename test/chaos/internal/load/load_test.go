package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Payloads are of three kinds, always the same for a key, and JSON.
func TestPayloadsFollowFromTheirKeys(t *testing.T) {
	t.Parallel()
	kinds := map[string]int{}
	for i := range 5000 {
		key := fmt.Sprint("k", i)
		p := payload("p1", key)
		if !json.Valid(p) || !bytes.Equal(p, payload("p1", key)) || bytes.Equal(p, payload("p2", key)) {
			t.Fatalf("%s: %.300s", key, p)
		}
		switch {
		case strings.Contains(string(p), `\u0000`):
			kinds["hostile"]++
		case len(p) == largeBytes:
			kinds["large"]++
		case len(p) == plainBytes:
			kinds["plain"]++
		}
	}
	if kinds["hostile"] == 0 || kinds["large"] < 25 || kinds["hostile"]+kinds["large"]+kinds["plain"] != 5000 {
		t.Errorf("%v", kinds)
	}
}

func TestWorkloadsAreWhole(t *testing.T) {
	t.Parallel()
	for _, w := range Workloads() {
		if w.Name == "" || w.Code == "" || w.About == "" || !json.Valid([]byte(w.Options)) || len(w.Groups) == 0 || len(w.Clients) == 0 {
			t.Errorf("%+v", w)
		}
	}
	if _, err := Find([]string{"log", "none such"}); err == nil {
		t.Error("no error")
	}
}
