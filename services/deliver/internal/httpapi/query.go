package httpapi

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/queue"
)

// query is the query of a management route. An empty value is the same as none, and of a repeated name the first counts.
// What a parameter cannot take is an error of kind Invalid that names it: a slip in a default would go unnoticed.
type query struct{ values url.Values }

func readQuery(c *gin.Context) (query, error) {
	values, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return query{}, queue.Invalid("query", "query: it is not percent-encoded correctly")
	}
	return query{values}, nil
}

// flag is a boolean, which has more spellings here than in a pop.
func (q query) flag(name string, absent bool) (bool, error) {
	switch q.values.Get(name) {
	case "":
		return absent, nil
	case "true", "1", "yes":
		return true, nil
	case "false", "0", "no":
		return false, nil
	}
	return false, queue.Invalid(name, name+" must be true or false")
}

// name is the name of a queue, partition or group; nil when there is none.
func (q query) name(name string) (*string, error) {
	text := q.values.Get(name)
	if text == "" {
		return nil, nil
	}
	return &text, queue.CheckName(name, text)
}

const (
	listDefault = 1000
	listMost    = 10000
)

// limit is how long a list may be.
func (q query) limit() (int, error) {
	text := q.values.Get("limit")
	if text == "" {
		return listDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > listMost {
		return 0, queue.Invalid("limit", fmt.Sprintf("limit must be an integer between 0 and %d", listMost))
	}
	return n, nil
}
