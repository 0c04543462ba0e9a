package main

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/testkit"
)

const maintenanceRoute = "/api/v1/system/maintenance"

// maintain turns push maintenance and checks the answer to the byte.
func (s *service) maintain(t *testing.T, on bool, buffered int, more string) {
	t.Helper()
	message := "Maintenance mode DISABLED. Background processor will drain buffer to DB."
	if on {
		message = "Maintenance mode ENABLED. All PUSHes routing to file buffer."
	}
	status, answer := s.post(t, "/system/maintenance", fmt.Sprintf(`{"enabled":%t}`, on))
	want := fmt.Sprintf(`{"maintenanceMode":%t,"bufferedMessages":%d,"bufferHealthy":%t,"message":%q%s}`, on, buffered, more == "", message, more)
	if status != http.StatusOK || answer != want {
		t.Fatalf("%d %s, want %s", status, answer, want)
	}
}

// modes is the answer to who asks.
func (s *service) modes(t *testing.T) string {
	t.Helper()
	status, _, answer, err := do(http.MethodGet, s.url+maintenanceRoute, "")
	if err != nil || status != http.StatusOK {
		t.Fatalf("%d %s %v", status, answer, err)
	}
	return answer
}

func TestMaintenance_PushesWaitOnDiskAndNoRowAppears(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	proxy, cfg := testkit.Between(t, db.Config)
	s := ready(t, cfg, nil)
	if got, want := s.modes(t), `{"maintenanceMode":false,"popMaintenanceMode":false,"bufferedMessages":0,"bufferHealthy":true,"bufferStats":{"pendingCount":0,`+
		`"failedCount":0,"dbHealthy":true,"failedFiles":{"count":0,"totalBytes":0,"totalMB":0.0,"failoverCount":0,"qos0Count":0}}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	s.mustPush(t, items(item("q", "p", "0")))
	s.maintain(t, true, 0, "")
	s.maintain(t, true, 0, "")
	appends := proxy.Count("queen.append") + proxy.Count("queen.ensure")
	want := []string{"0"}
	for n := 1; n <= 20; n++ {
		id := strconv.Itoa(n)
		r := s.mustPush(t, items(item("q", "p", id), item("q", "p", id), item("q", "p", "0"), item("new", "p", id)))
		if statuses(r) != "buffered buffered buffered buffered" || r[0].MessageID != r[1].MessageID {
			t.Fatalf("%+v", r)
		}
		want = append(want, id)
	}
	if now := proxy.Count("queen.append") + proxy.Count("queen.ensure"); now != appends {
		t.Errorf("%d statements of pushes", now-appends)
	}
	if b := s.buffers(t); b.Pending != 60 || !b.DBHealthy { // whether 0 is a duplicate is found out later
		t.Errorf("%+v", b)
	}
	if got := s.modes(t); !strings.HasPrefix(got, `{"maintenanceMode":true,"popMaintenanceMode":false,"bufferedMessages":60,"bufferHealthy":true,`+
		`"bufferStats":{"pendingCount":60,"failedCount":0,"dbHealthy":true,"failedFiles":{"count":1,"totalBytes":`) {
		t.Error(got)
	}
	if _, _, text, err := do(http.MethodGet, s.url+"/metrics/prometheus", ""); err != nil || !strings.Contains(text, "queen_maintenance_mode_enabled 1") {
		t.Error("no gauge", err)
	}
	if got, _ := transactions(t, db, "q", "p"); len(got) != 1 {
		t.Errorf("stored: %v", got)
	}
	s.maintain(t, false, 60, "")
	s.drained(t)
	got, _ := transactions(t, db, "q", "p")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, _ := transactions(t, db, "new", "p"); len(got) != 20 {
		t.Errorf("stored: %v", got)
	}
	if r := s.mustPush(t, items(item("q", "p", "20"), item("q", "p", "21"))); statuses(r) != "duplicate queued" {
		t.Errorf("%+v", r)
	}
}

func TestMaintenance_BadBodies(t *testing.T) {
	t.Parallel()
	s := ready(t, pgtest.New(t).Config, nil)
	for _, body := range []string{"", "{}", `{"enabled":"yes"}`, `{"enabled":null}`, `[]`} {
		if status, answer := s.post(t, "/system/maintenance", body); status != http.StatusBadRequest || answer != `{"error":"enabled (boolean) is required"}` {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	if got := s.modes(t); !strings.HasPrefix(got, `{"maintenanceMode":false`) {
		t.Error(got)
	}
}

// The mode outlives the process, and so does what waits, with the database and without.
func TestMaintenance_SurvivesRestarts(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	link := newLink(t, db.Config)
	dir := t.TempDir()
	settle := func(s *settings) { s.Dir, s.ServerID = dir, "the-same" }
	s := ready(t, link.config(), settle)
	s.maintain(t, true, 0, "")
	for n, away := range []bool{false, true, false} {
		s.mustPush(t, items(item("q", "p", strconv.Itoa(n))))
		if err := s.stop(); err != nil {
			t.Fatal(err)
		}
		link.set(map[bool]state{true: down, false: up}[away])
		if s = start(t, link.config(), settle); !away {
			s.logs.await(t, "schema is current")
		}
		if r := s.mustPush(t, items(item("other", "p", strconv.Itoa(n)))); statuses(r) != "buffered" {
			t.Errorf("after start %d: %+v", n, r)
		}
		if b := s.buffers(t); b.Pending != int64(2*(n+1)) || b.DBHealthy == away {
			t.Errorf("after start %d: %+v", n, b)
		}
	}
	// One that has no file learns of it before it takes the first push.
	if r := start(t, db.Config, nil).mustPushSoon(t, items(item("q", "p", "of another folder"))); statuses(r) != "buffered" {
		t.Errorf("%+v", r)
	}
	if got, _ := transactions(t, db, "q", "p"); len(got) != 0 {
		t.Errorf("stored: %v", got)
	}
	s.maintain(t, false, 6, "")
	s.drained(t)
	for _, name := range []string{"q", "other"} {
		got, _ := transactions(t, db, name, "p")
		if diff := cmp.Diff([]string{"0", "1", "2"}, got); diff != "" {
			t.Error(diff)
		}
	}
}

// mustPushSoon repeats a push for as long as the process says that it cannot tell yet.
func (s *service) mustPushSoon(t *testing.T, body string) []result {
	t.Helper()
	for {
		results, err := s.push(body)
		if err == nil {
			return results
		}
		if !strings.HasPrefix(err.Error(), "503 ") || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

// Turned on while nobody can write it down, it is on when the database is back.
func TestMaintenance_SetDuringAnOutage(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	link := newLink(t, db.Config)
	s := ready(t, link.config(), nil)
	s.mustPush(t, items(item("q", "p", "0")))
	link.set(down)
	s.maintain(t, true, 0, `,"stored":false`)
	if got := s.modes(t); !strings.HasPrefix(got, `{"maintenanceMode":true`) {
		t.Error(got)
	}
	s.mustPush(t, items(item("q", "p", "1")))
	link.set(up)
	testkit.Eventually(t, "it is stored", func() bool {
		var value string
		if err := db.Pool.QueryRow(t.Context(), `SELECT coalesce(max(value::text), '') FROM queen.system_state WHERE key = 'maintenance_mode'`).Scan(&value); err != nil {
			t.Fatal(err)
		}
		if value != "" && value != `{"enabled": true}` {
			t.Fatal(value)
		}
		return value != ""
	})
	other := start(t, db.Config, nil)
	if r := other.mustPushSoon(t, items(item("q", "p", "2"))); statuses(r) != "buffered" {
		t.Errorf("%+v", r)
	}
	if r := s.mustPush(t, items(item("q", "p", "3"))); statuses(r) != "buffered" {
		t.Errorf("%+v", r)
	}
	s.maintain(t, false, 2, "")
	s.drained(t)
	if got, _ := transactions(t, db, "q", "p"); len(got) < 3 {
		t.Errorf("stored: %v", got)
	}
}

// When the spool is all there is, what it does not take makes the push a 500, item by item.
func TestMaintenance_WhatTheSpoolDoesNotTakeFails(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := ready(t, db.Config, func(s *settings) { s.MaxBytes = 3000 })
	s.maintain(t, true, 0, "")
	buffered, status, answer := 0, http.StatusCreated, ""
	for n := 0; status == http.StatusCreated; n++ {
		status, answer = s.post(t, "/push", items(item("q", "p", strings.Repeat(strconv.Itoa(n), 100))))
		if status == http.StatusCreated {
			buffered++
		}
	}
	if status != http.StatusInternalServerError || buffered == 0 || !strings.HasPrefix(answer, `[{`) ||
		!strings.Contains(answer, `"status":"failed","error":"push maintenance is on, and the spool is full"`) {
		t.Errorf("after %d: %d %s", buffered, status, answer)
	}
	if status, _, answer, err := do(http.MethodGet, s.url+"/readyz", ""); err != nil || status != http.StatusServiceUnavailable {
		t.Errorf("ready with a full spool: %d %s %v", status, answer, err)
	}
	if got := s.modes(t); !strings.Contains(got, `"bufferHealthy":false`) || !strings.Contains(got, `"failedCount":1,"dbHealthy":true`) {
		t.Error(got)
	}
}

func TestMaintenance_DeadLettersStayWhereTheyAre(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := ready(t, db.Config, nil)
	letter := bury(t, db, "bills", "eu", "t1", []byte(`1`))
	s.maintain(t, true, 0, "")
	want := fmt.Sprintf(`{"success":false,"result":"maintenance","queue":"bills","partition":"eu","consumerGroup":"g","dlqId":"%s","originalTransactionId":"t1",`+
		`"error":"push maintenance is on, and a move cannot be spooled","dlqRowRemoved":false}`, letter.id)
	for _, path := range []string{"/dlq/" + letter.id.String() + "/replay", "/messages/" + letter.partition.String() + "/t1/retry"} {
		if status, answer := s.post(t, path, ""); status != http.StatusServiceUnavailable || answer != want {
			t.Errorf("%d %s, want %s", status, answer, want)
		}
	}
	if n := deadLetters(t, db); n != 1 {
		t.Errorf("%d dead letters", n)
	}
	s.maintain(t, false, 0, "")
	if status, answer := s.post(t, "/dlq/"+letter.id.String()+"/replay", ""); status != http.StatusOK {
		t.Errorf("%d %s", status, answer)
	}
}
