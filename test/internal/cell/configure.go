package cell

import (
	"encoding/json"
	"net/http"
	"testing"
)

// Settings is the answer of a configure as a client reads it.
type Settings struct {
	Configured bool           `json:"configured"`
	QueueID    string         `json:"queueId"`
	Queue      string         `json:"queue"`
	Namespace  string         `json:"namespace"`
	Task       string         `json:"task"`
	Options    map[string]any `json:"options"`
}

// ConfigureAt sends what the request adds to the queue's name, such as `"options":{}`.
func (c *Cell) ConfigureAt(t *testing.T, address, queue, request string) Settings {
	t.Helper()
	body := `{"queue":"` + queue + `"`
	if request != "" {
		body += "," + request
	}
	status, answer := c.Do(t, address, http.MethodPost, "/api/v1/configure", body+"}")
	var s Settings
	if err := json.Unmarshal(answer, &s); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s (%v)", status, answer, err)
	}
	if !s.Configured || s.Queue != queue || s.QueueID == "" {
		t.Fatalf("%s", answer)
	}
	return s
}

// Configure is ConfigureAt the edge.
func (c *Cell) Configure(t *testing.T, queue, request string) Settings {
	t.Helper()
	return c.ConfigureAt(t, c.Edge, queue, request)
}
