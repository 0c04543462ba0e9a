// Package httpapi is the console's HTTP side. Everything it serves is a read.
package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/httpd"
	"queen.internal/services/console/internal/page"
)

// Pages answers what is in no row of the route table: the front page and what it is made of.
func Pages(front *page.Page) gin.HandlerFunc {
	return func(c *gin.Context) {
		if !front.Serve(c.Writer, c.Request) {
			httpd.JSON(c, http.StatusNotFound, refusal{"Not Found", "no_such_route"})
		}
	}
}

// refusal is the body of answers that carry a code.
type refusal struct {
	Error string `json:"error"`
	Code  string `json:"code"`
}
