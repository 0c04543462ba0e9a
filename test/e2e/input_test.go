package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"queen.internal/test/internal/cell"
)

func TestBadInput(t *testing.T) {
	t.Parallel()
	partitionID := "6f0c2a52-1b6e-4e0e-9f63-8b6e0c5f2d10"
	long := strings.Repeat("x", 65536)
	for name, tc := range map[string]struct {
		method, path, body string
		status             int
		contains           string
	}{
		"PushNotJSON":            {"POST", "/api/v1/push", `{"items":[`, 400, `{"error":"bad body: `},
		"PushEmptyBody":          {"POST", "/api/v1/push", ``, 400, `{"error":"bad body: `},
		"PushTrailingGarbage":    {"POST", "/api/v1/push", `{"items":[]} x`, 400, `{"error":"bad body: `},
		"PushWithoutItems":       {"POST", "/api/v1/push", `{}`, 400, `items`},
		"PushItemsNotAnArray":    {"POST", "/api/v1/push", `{"items":{}}`, 400, `items`},
		"PushWithoutQueue":       {"POST", "/api/v1/push", `{"items":[{"payload":1}]}`, 400, `queue`},
		"PushWithoutPayload":     {"POST", "/api/v1/push", `{"items":[{"queue":"q"}]}`, 400, `payload`},
		"PushDataIsNoPayload":    {"POST", "/api/v1/push", `{"items":[{"queue":"q","data":1}]}`, 400, `payload`},
		"PushControlCharacter":   {"POST", "/api/v1/push", `{"items":[{"queue":"a\u001fb","payload":1}]}`, 400, `queue`},
		"PushLongTransactionID":  {"POST", "/api/v1/push", `{"items":[{"queue":"q","transactionId":"` + long + `","payload":1}]}`, 400, `transactionId`},
		"PushInvalidUTF8":        {"POST", "/api/v1/push", "{\"items\":[{\"queue\":\"q\",\"payload\":\"\xff\"}]}", 400, `{"error":"bad body: `},
		"PushBadPayload":         {"POST", "/api/v1/push", `{"items":[{"queue":"q","payload":01}]}`, 400, `{"error":"bad body: `},
		"PopBadBatch":            {"GET", "/api/v1/pop/queue/q?batch=many", "", 400, "batch"},
		"PopBadWait":             {"GET", "/api/v1/pop/queue/q?wait=1", "", 400, "wait"},
		"PopNegativeTimeout":     {"GET", "/api/v1/pop/queue/q?wait=true&timeout=-1", "", 400, "timeout"},
		"DiscoveryOfNothing":     {"GET", "/api/v1/pop", "", 400, `{"success":false,"error":"namespace or task is required","messages":[]}`},
		"PopBrokenEscape":        {"GET", "/api/v1/pop/queue/%zz", "", 400, ""},
		"PopEscapedControl":      {"GET", "/api/v1/pop/queue/a%00b", "", 400, "control"},
		"AckNotJSON":             {"POST", "/api/v1/ack", `nope`, 400, `{"error":"bad body: `},
		"AckBatchNotJSON":        {"POST", "/api/v1/ack/batch", `[`, 400, `{"error":"bad body: `},
		"AckBatchOfNothing":      {"POST", "/api/v1/ack/batch", `{}`, 200, `[]`},
		"AckOfNoPartition":       {"POST", "/api/v1/ack", `{"transactionId":"a"}`, 200, `"success":false`},
		"AckOfAnUnknownPart":     {"POST", "/api/v1/ack", `{"transactionId":"a","partitionId":"` + partitionID + `"}`, 200, `"success":false`},
		"ExtendOfAnUnknownLease": {"POST", "/api/v1/lease/" + partitionID + "/extend", `nonsense`, 200, `"success":false,"renewed":0,"newExpiresAt":null`},
		"UnknownRoute":           {"GET", "/api/v1/nothing", "", 404, `{"error":"Not Found","code":"no_such_route"}`},
		"UnknownRouteAnyVerb":    {"DELETE", "/api/v2/push", "", 404, `{"error":"Not Found","code":"no_such_route"}`},
		"WrongVerb":              {"GET", "/api/v1/push", "", 405, `"error"`},
		"WayUpInTheRoute":        {"GET", "/api/v1/../v1/pop", "", 404, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := shared(t)
			status, body := c.Do(t, c.Edge, tc.method, tc.path, tc.body)
			if (status != tc.status && !(name == "WayUpInTheRoute" && status == 400)) || !strings.Contains(string(body), tc.contains) {
				t.Errorf("%d %s, want %d with %s", status, body, tc.status, tc.contains)
			}
		})
	}
}

func TestOversizedBodyIs413AndStoresNothing(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := cell.FreshQueue()
	body := fmt.Sprintf(`{"items":[{"queue":%q,"payload":"%s"}]}`, queue, strings.Repeat("x", maxBody))
	for _, address := range []string{c.Edge, c.Ingest[0]} {
		if status, answer := c.Do(t, address, "POST", "/api/v1/push", body); status != http.StatusRequestEntityTooLarge {
			t.Errorf("%d %.200s", status, answer)
		}
	}
	if status, _ := c.Get(t, "/api/v1/pop/queue/"+queue); status != http.StatusNoContent {
		t.Errorf("pop: %d", status)
	}
}

func TestRefusedPushStoresNoItem(t *testing.T) {
	t.Parallel()
	c := shared(t)
	queue := cell.FreshQueue()
	status, body := c.Post(t, "/api/v1/push", fmt.Sprintf(`{"items":[{"queue":%q,"payload":1},{"queue":%q}]}`, queue, queue))
	if status != 400 {
		t.Errorf("push: %d %s", status, body)
	}
	if status, _ := c.Get(t, "/api/v1/pop/queue/"+queue); status != http.StatusNoContent {
		t.Errorf("pop: %d", status)
	}
}

func TestEveryServiceNamesTheOwnerOfAForeignRoute(t *testing.T) {
	t.Parallel()
	c := shared(t)
	status, body := c.Do(t, c.Ingest[0], "GET", "/api/v1/pop/queue/q", "")
	if status != 404 || !strings.Contains(string(body), "deliver") {
		t.Errorf("%d %s", status, body)
	}
	status, body = c.Do(t, c.Deliver[0], "POST", "/api/v1/push", `{"items":[]}`)
	if status != 404 || !strings.Contains(string(body), "ingest") {
		t.Errorf("%d %s", status, body)
	}
}

func TestEveryServiceTellsItsHealth(t *testing.T) {
	t.Parallel()
	c := shared(t)
	for _, address := range c.All() {
		for path, want := range map[string]string{
			"/health":             `{"status":"healthy","database":"connected","engine":"segments-go","version":"`,
			"/livez":              ``,
			"/readyz":             ``,
			"/status":             `{"status":"ok","engine":"segments-go"}`,
			"/metrics/prometheus": `queen_http_request_duration_seconds`,
		} {
			if status, body := c.Do(t, address, "GET", path, ""); status != 200 || !strings.Contains(string(body), want) {
				t.Errorf("%s%s: %d %.300s", address, path, status, body)
			}
		}
	}
}
