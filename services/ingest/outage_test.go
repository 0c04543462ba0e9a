package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/config"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/testkit"
)

// buffers is the answer of status/buffers.
type buffers struct {
	Pending, Failed int64
	DBHealthy       bool
}

func (s *service) buffers(t testing.TB) (b buffers) {
	t.Helper()
	status, _, answer, err := do(http.MethodGet, s.url+"/api/v1/status/buffers", "")
	if err != nil || status != http.StatusOK {
		t.Fatalf("%d %s %v", status, answer, err)
	}
	if err := json.Unmarshal([]byte(answer), &b); err != nil {
		t.Fatal(err)
	}
	return b
}

// drained waits until nothing is pending.
func (s *service) drained(t testing.TB) {
	t.Helper()
	var last int64
	for limit := time.Now().Add(patience); ; {
		b := s.buffers(t)
		if b.Pending == 0 && b.DBHealthy {
			return
		}
		if b.Pending != last { // it goes on
			last, limit = b.Pending, time.Now().Add(patience)
		}
		if time.Now().After(limit) {
			t.Fatalf("not drained any further: %+v", b)
		}
		time.Sleep(10 * time.Millisecond) // the pace of asking
	}
}

// item is one message with a transaction id, whose payload is that id.
func item(queueName, partition, transaction string) string {
	return fmt.Sprintf(`{"queue":%q,"partition":%q,"transactionId":%q,"payload":%q}`, queueName, partition, transaction, transaction)
}

func items(all ...string) string { return `{"items":[` + strings.Join(all, ",") + `]}` }

func statuses(results []result) string {
	var all []string
	for _, r := range results {
		all = append(all, r.Status)
	}
	return strings.Join(all, " ")
}

// transactions are those of a partition, in its order; ids are the messages' by transaction.
func transactions(t *testing.T, db pgtest.Database, name, partition string) (all []string, ids map[string]string) {
	t.Helper()
	ids = map[string]string{}
	for _, m := range stored(t, db, name, partition) {
		all = append(all, m.TransactionID)
		ids[m.TransactionID] = m.ID.String()
	}
	return all, ids
}

func TestOutage_PushesAreBufferedAndDeliveredOnceInOrderUnderTheirIDs(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	link := newLink(t, db.Config)
	s := ready(t, link.config(), nil)
	s.mustPush(t, items(item("q", "p", "0")))
	link.set(down)
	announced := map[string]string{}
	want := []string{"0"}
	for n := 1; n <= 30; n++ {
		id := strconv.Itoa(n)
		r := s.mustPush(t, items(item("q", "p", id), item("q", "p", id), item("q", "p", "0")))
		if statuses(r) != "buffered buffered buffered" || r[0].MessageID != r[1].MessageID {
			t.Fatalf("%+v", r)
		}
		announced[id] = r[0].MessageID
		want = append(want, id)
	}
	if b := s.buffers(t); b.Pending != 60 || b.DBHealthy { // whether 0 is a duplicate is found out later
		t.Errorf("%+v", b)
	}
	for path, status := range map[string]int{"/health": 503, "/readyz": 200, "/livez": 200} {
		if got, _, answer, err := do(http.MethodGet, s.url+path, ""); err != nil || got != status {
			t.Errorf("%s: %d %s %v", path, got, answer, err)
		}
	}
	link.set(up)
	s.drained(t)
	got, ids := transactions(t, db, "q", "p")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for id, message := range announced {
		if ids[id] != message {
			t.Errorf("%s was announced as %s and is stored as %s", id, message, ids[id])
		}
	}
	if r := s.mustPush(t, items(item("q", "p", "30"), item("q", "p", "31"))); statuses(r) != "duplicate queued" {
		t.Errorf("%+v", r)
	}
	s.logs.await(t, "DB down — entering buffered mode (degraded durability)")
	s.logs.await(t, "DB recovered — leaving buffered mode")
	_, _, text, err := do(http.MethodGet, s.url+"/metrics/prometheus", "")
	if err != nil || !strings.Contains(text, "queen_file_buffer_pending 0") || !strings.Contains(text, "queen_file_buffer_db_healthy 1") {
		t.Errorf("%v in %s", err, text)
	}
}

// The database hangs: nothing says so but the deadlines, and what was sent may have been committed.
func TestOutage_AHangingDatabaseIsGivenUpAndEachPushIsStoredOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	proxy, cfg := testkit.Between(t, db.Config)
	s := ready(t, cfg, nil)
	const pushes, partitions = 12, 4
	var warm []string
	for p := range partitions {
		warm = append(warm, item("q", fmt.Sprint("p", p), "first"))
	}
	s.mustPush(t, items(warm...))
	if _, err := db.Pool.Exec(t.Context(), `UPDATE queen.queues SET dedup_window_seconds = 0`); err != nil {
		t.Fatal(err)
	}
	held := proxy.Next(testkit.HoldAnswer, "queen.append(") // this one is committed
	var pushing sync.WaitGroup
	push := func(n int) {
		pushing.Go(func() {
			r, err := s.push(items(item("q", fmt.Sprint("p", n%partitions), fmt.Sprint("t", n))))
			if err != nil || r[0].Status != "buffered" {
				t.Errorf("push %d: %+v %v", n, r, err)
			}
		})
	}
	push(0)
	held.Await(t)
	proxy.Stall()
	for n := 1; n < pushes; n++ {
		push(n)
	}
	pushing.Wait() // it hangs still: the spool has answered
	if b := s.buffers(t); b.DBHealthy || b.Pending != pushes {
		t.Errorf("%+v", b)
	}
	held.Release()
	proxy.Resume()
	s.drained(t)
	for p := range partitions {
		got, _ := transactions(t, db, "q", fmt.Sprint("p", p))
		seen := map[string]int{}
		for _, id := range got {
			seen[id]++
		}
		if len(got) != 1+pushes/partitions || len(seen) != len(got) {
			t.Errorf("partition %d: %v", p, got)
		}
	}
	if r := s.mustPush(t, items(item("q", "p0", "after"))); statuses(r) != "queued" {
		t.Errorf("%+v", r)
	}
}

func TestOutage_ALostAnswerIsResolvedByItsTag(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	proxy, cfg := testkit.Between(t, db.Config)
	s := ready(t, cfg, nil)
	s.mustPush(t, items(item("q", "p", "first")))
	if _, err := db.Pool.Exec(t.Context(), `UPDATE queen.queues SET dedup_window_seconds = 0`); err != nil {
		t.Fatal(err)
	}
	first, second := proxy.Next(testkit.DropAnswer, "queen.append("), proxy.Nth(2, testkit.CutStatement, "queen.append(")
	r := s.mustPush(t, items(item("q", "p", "1"), item("q", "p", "2")))
	first.Await(t)
	second.Await(t)
	if statuses(r) != "buffered buffered" {
		t.Errorf("%+v", r)
	}
	s.drained(t)
	if got, ids := transactions(t, db, "q", "p"); strings.Join(got, " ") != "first 1 2" || ids["2"] != r[1].MessageID {
		t.Errorf("%v", got)
	}
}

// A process that starts while the database is down spools, and knows of queues what one before it has written down.
func TestOutage_AColdBootSpools(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	link := newLink(t, db.Config)
	folder := t.TempDir()
	same := func(s *settings) { s.Dir, s.ServerID = folder, "ingest-0" }
	s := ready(t, link.config(), same)
	if status, _, answer, err := do(http.MethodPost, s.url+"/api/v1/configure", `{"queue":"none","options":{"spool":false}}`); err != nil || status != 200 || !strings.Contains(answer, `"spool":false`) {
		t.Fatalf("%d %s %v", status, answer, err)
	}
	s.mustPush(t, items(item("q", "p", "0")))
	list := filepath.Join(folder, "queues.json")
	testkit.Eventually(t, "the list of queues is written", func() bool {
		data, err := os.ReadFile(list)
		return err == nil && strings.Contains(string(data), `"none"`)
	})
	link.set(down)
	if r := s.mustPush(t, items(item("q", "p", "1"), item("q", "r", "x"))); statuses(r) != "buffered buffered" {
		t.Fatalf("%+v", r)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	s = start(t, link.config(), same)
	if b := s.buffers(t); b.Pending != 2 || b.DBHealthy {
		t.Errorf("after the start: %+v", b)
	}
	if r := s.mustPush(t, items(item("q", "p", "2"), item("new", "p", "y"), item("none", "p", "z"))); statuses(r) != "buffered buffered failed" || !strings.Contains(r[2].Error, "not spooled") {
		t.Errorf("%+v", r)
	}
	if status, header, answer, err := do(http.MethodPost, s.url+"/api/v1/push", items(item("none", "p", "z"))); err != nil || status != 503 || header.Get("Retry-After") == "" {
		t.Errorf("%d %s %v", status, answer, err)
	}
	link.set(up)
	s.drained(t)
	if r := s.mustPush(t, items(item("q", "p", "3"), item("none", "p", "z"))); statuses(r) != "queued queued" {
		t.Errorf("%+v", r)
	}
	for _, tc := range [][3]string{{"q", "p", "0 1 2 3"}, {"q", "r", "x"}, {"new", "p", "y"}, {"none", "p", "z"}} {
		if got, _ := transactions(t, db, tc[0], tc[1]); strings.Join(got, " ") != tc[2] {
			t.Errorf("%s/%s: %v", tc[0], tc[1], got)
		}
	}
}

func TestOutage_APeerBringsWhatAStoppedProcessLeft(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	link := newLink(t, db.Config)
	folder := t.TempDir()
	one := ready(t, link.config(), func(s *settings) { s.Dir, s.ServerID = folder, "one" })
	link.set(down)
	for n := range 10 {
		one.mustPush(t, items(item("q", "p", strconv.Itoa(n))))
	}
	if err := one.stop(); err != nil {
		t.Fatal(err)
	}
	link.set(up)
	two := ready(t, link.config(), func(s *settings) { s.Dir, s.ServerID = folder, "two" })
	two.logs.await(t, "adopted the spool of a dead process")
	two.drained(t)
	if got, _ := transactions(t, db, "q", "p"); strings.Join(got, " ") != "0 1 2 3 4 5 6 7 8 9" {
		t.Errorf("%v", got)
	}
}

func TestOutage_AFullSpoolFailsItemsAndRecovers(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	link := newLink(t, db.Config)
	s := ready(t, link.config(), func(s *settings) { s.Dir, s.MaxBytes = t.TempDir(), 4096 })
	link.set(down)
	stored, n := 0, 0
	for ; ; n++ {
		r := s.mustPush(t, items(item("q", "p", strconv.Itoa(n))))
		if r[0].Status == "failed" {
			if !strings.Contains(r[0].Error, "spool is full") {
				t.Errorf("%+v", r)
			}
			break
		}
		stored++
	}
	if b := s.buffers(t); b.Failed != 1 || b.Pending != int64(stored) || stored < 10 {
		t.Errorf("%+v after %d", b, stored)
	}
	link.set(up)
	s.drained(t)
	if r := s.mustPush(t, items(item("q", "p", strconv.Itoa(n)))); statuses(r) != "queued" {
		t.Errorf("%+v", r)
	}
	if got, _ := transactions(t, db, "q", "p"); len(got) != stored+1 {
		t.Errorf("%d messages, want %d", len(got), stored+1)
	}
}

// With a key nothing on the disk can be read, and a queue's payloads are sealed however late it is known that they must be.
func TestOutage_SpooledPayloadsAreSealed(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	link := newLink(t, db.Config)
	folder := t.TempDir()
	s := ready(t, link.config(), func(s *settings) { s.Dir, s.Encryption.Key = folder, config.Secret(strings.Repeat("a1", 32)) })
	if status, _, answer, err := do(http.MethodPost, s.url+"/api/v1/configure", `{"queue":"secret","options":{"encryptionEnabled":true}}`); err != nil || status != 200 {
		t.Fatalf("%d %s %v", status, answer, err)
	}
	link.set(down)
	if r := s.mustPush(t, items(item("secret", "p", "cleartext"), item("plain", "p", "cleartext"))); statuses(r) != "buffered buffered" {
		t.Fatalf("%+v", r)
	}
	err := filepath.WalkDir(folder, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "cleartext") {
			t.Errorf("%s can be read", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	link.set(up)
	s.drained(t)
	if got := stored(t, db, "secret", "p"); len(got) != 1 || !strings.HasPrefix(string(got[0].Payload), `{"encrypted":`) {
		t.Errorf("%+v", got)
	}
	if got := stored(t, db, "plain", "p"); len(got) != 1 || string(got[0].Payload) != `"cleartext"` {
		t.Errorf("%+v", got)
	}
}
