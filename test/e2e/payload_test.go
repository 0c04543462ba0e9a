package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"queen.internal/test/internal/cell"
)

// payloads are JSON values whose text must survive to the byte.
var payloads = map[string]string{
	"BigInteger":      `123456789012345678901234567890`,
	"BeyondDoubles":   `9007199254740993`,
	"Decimals":        `[0.1000, 1E400, -0, 1e-7]`,
	"KeyOrder":        `{"z":1,"a":2,"z":3}`,
	"Blanks":          "{ \"a\" :\t[ 1 ,2 ]\n}",
	"Escapes":         `"\u00e9 \/ \\ \" \b\f\n\r\t"`,
	"EscapedNul":      `"before\u0000after"`,
	"LoneSurrogate":   `"\ud800"`,
	"HTML":            `"<b>&amp;</b>"`,
	"LineSeparators":  "\"\u2028\u2029\"",
	"Unicode":         `"früh 早い 🐝"`,
	"Null":            `null`,
	"EmptyObject":     `{}`,
	"EmptyString":     `""`,
	"False":           `false`,
	"OneMegabyte":     `"` + strings.Repeat("a long string. ", 1<<20/15) + `"`,
	"TenThousandDeep": `[` + strings.Repeat(`{"a":[1,2,{"b":null}]},`, 9999) + `0]`,
}

func TestPayload(t *testing.T) {
	t.Parallel()
	for name, payload := range payloads {
		t.Run("SurvivesVerbatim/"+name, func(t *testing.T) {
			t.Parallel()
			c := shared(t)
			queue := cell.FreshQueue()
			status, body := c.Post(t, "/api/v1/push", fmt.Sprintf(`{"items":[{"queue":%q,"payload":%s}]}`, queue, payload))
			if status != 201 {
				t.Fatalf("push: %d %s", status, body)
			}
			status, body = c.Get(t, "/api/v1/pop/queue/"+queue+"?wait=true&timeout=5000")
			if status != 200 {
				t.Fatalf("pop: %d %s", status, body)
			}
			var popped struct {
				Messages []struct {
					Data json.RawMessage `json:"data"`
				} `json:"messages"`
			}
			if err := json.Unmarshal(body, &popped); err != nil {
				t.Fatal(err)
			}
			if len(popped.Messages) != 1 || !bytes.Equal(popped.Messages[0].Data, []byte(payload)) {
				t.Errorf("pushed %.200s\npopped %.400s", payload, body)
			}
			if !bytes.Contains(body, []byte(`"data":`+payload+`,`)) {
				t.Errorf("the bytes of %.200s do not stand in %.400s", payload, body)
			}
		})
	}
}
