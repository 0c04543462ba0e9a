package httpapi

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/httpd"
	"queen.internal/pkg/wire"
)

// queueSeek is the answer of a seek over a queue.
type queueSeek struct {
	Success    bool    `json:"success"`
	Group      string  `json:"consumerGroup"`
	Queue      string  `json:"queueName"`
	ToEnd      bool    `json:"seekToEnd"`
	To         *string `json:"targetTimestamp"`
	Partitions int     `json:"partitionsUpdated"`
}

// nowhere is the answer of a seek over a queue that is not there.
type nowhere struct {
	Success    bool   `json:"success"`
	Error      string `json:"error"`
	Group      string `json:"consumerGroup"`
	Queue      string `json:"queueName"`
	Partitions int    `json:"partitionsUpdated"`
}

// partitionSeek is the answer of a seek in one partition.
type partitionSeek struct {
	Success   bool    `json:"success"`
	Group     string  `json:"consumerGroup"`
	Queue     string  `json:"queueName"`
	Partition string  `json:"partitionName"`
	ToEnd     bool    `json:"seekToEnd"`
	To        *string `json:"targetTimestamp"`
	Updated   bool    `json:"updated"`
}

// subscriptionChange is the answer of a change of a group's subscription.
type subscriptionChange struct {
	Success bool   `json:"success"`
	Group   string `json:"consumerGroup"`
	From    string `json:"newTimestamp"` // as it was sent
	Rows    int    `json:"rowsUpdated"`
}

// groupDeletion is the answer of a deletion.
type groupDeletion struct {
	Success  bool    `json:"success"`
	Group    string  `json:"consumerGroup"`
	Queue    *string `json:"queueName,omitempty"`
	Cursors  int     `json:"deletedPartitions"`
	Metadata bool    `json:"metadataDeleted"`
}

// names reads path parameters, in their order.
func names(c *gin.Context, parameters ...string) ([]string, error) {
	values := make([]string, len(parameters))
	for i, parameter := range parameters {
		var err error
		if values[i], err = httpd.Param(c, parameter); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func target(to *time.Time) *string {
	if to == nil {
		return nil
	}
	text := wire.Milliseconds(*to)
	return &text
}

func (a *API) seekQueue(c *gin.Context) {
	path, err := names(c, "group", "queue")
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	body, err := httpd.Body(c)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	to, err := wire.ScanSeek(body)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	partitions, found, err := a.Groups.Seek(c.Request.Context(), httpd.Tenant(c), path[1], path[0], to)
	httpd.Note(c, slog.Int("partitions", partitions))
	switch {
	case err != nil:
		httpd.Fail(c, err)
	case !found:
		httpd.JSON(c, http.StatusNotFound, nowhere{Error: "Queue not found or has no partitions", Group: path[0], Queue: path[1]})
	default:
		httpd.JSON(c, http.StatusOK, queueSeek{
			Success: true, Group: path[0], Queue: path[1], ToEnd: to == nil, To: target(to), Partitions: partitions,
		})
	}
}

func (a *API) seekPartition(c *gin.Context) {
	path, err := names(c, "group", "queue", "partition")
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	body, err := httpd.Body(c)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	var to *time.Time // no body at all means the end
	if len(body) > 0 {
		if to, err = wire.ScanSeek(body); err != nil {
			httpd.Fail(c, err)
			return
		}
	}
	found, err := a.Groups.SeekPartition(c.Request.Context(), httpd.Tenant(c), path[1], path[2], path[0], to)
	switch {
	case err != nil:
		httpd.Fail(c, err)
	case !found:
		_ = httpd.Raw(c, http.StatusNotFound, []byte(`{"success":false,"error":"Partition not found"}`))
	default:
		httpd.JSON(c, http.StatusOK, partitionSeek{
			Success: true, Group: path[0], Queue: path[1], Partition: path[2], ToEnd: to == nil, To: target(to), Updated: true,
		})
	}
}

func (a *API) changeSubscription(c *gin.Context) {
	path, err := names(c, "group")
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	body, err := httpd.Body(c)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	text, from, err := wire.ScanSubscription(body)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	rows, err := a.Groups.ChangeSubscription(c.Request.Context(), httpd.Tenant(c), path[0], from)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	httpd.JSON(c, http.StatusOK, subscriptionChange{Success: true, Group: path[0], From: text, Rows: rows})
}

func (a *API) deleteGroup(c *gin.Context) {
	path, err := names(c, "group")
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	a.endGroup(c, path[0], nil)
}

func (a *API) deleteGroupOnQueue(c *gin.Context) {
	path, err := names(c, "group", "queue")
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	a.endGroup(c, path[0], &path[1])
}

func (a *API) endGroup(c *gin.Context, name string, queueName *string) {
	query, err := readQuery(c)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	metadata, err := query.flag("deleteMetadata", true)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	cursors, err := a.Groups.Delete(c.Request.Context(), httpd.Tenant(c), name, queueName, !metadata)
	httpd.Note(c, slog.Int("cursors", cursors))
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	httpd.JSON(c, http.StatusOK, groupDeletion{Success: true, Group: name, Queue: queueName, Cursors: cursors, Metadata: metadata})
}
