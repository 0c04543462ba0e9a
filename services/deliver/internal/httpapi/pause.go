package httpapi

import (
	"log/slog"
	"net/http"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/httpd"
)

// pauseBody is the answer of a pause or a resume. Group is null when all of the queue is meant.
type pauseBody struct {
	Success bool    `json:"success"`
	Queue   string  `json:"queue"`
	Group   *string `json:"consumerGroup"`
	Paused  bool    `json:"paused"`
	Changed bool    `json:"changed"`
}

func (a *API) pauseQueue(c *gin.Context)  { a.setPause(c, false, true) }
func (a *API) resumeQueue(c *gin.Context) { a.setPause(c, false, false) }
func (a *API) pauseGroup(c *gin.Context)  { a.setPause(c, true, true) }
func (a *API) resumeGroup(c *gin.Context) { a.setPause(c, true, false) }

// setPause stops or resumes the deliveries of the queue in the path, or of its group there.
func (a *API) setPause(c *gin.Context, ofGroup, paused bool) {
	body := pauseBody{Success: true, Paused: paused}
	var err error
	if body.Queue, err = httpd.Param(c, "queue"); err == nil && ofGroup {
		var group string
		group, err = httpd.Param(c, "group")
		body.Group = &group
	}
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	httpd.Note(c, slog.String("queue", body.Queue), slog.Bool("paused", paused))
	body.Changed, err = a.Groups.SetPause(c.Request.Context(), httpd.Tenant(c), body.Queue, body.Group, paused)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	httpd.JSON(c, http.StatusOK, body)
}
