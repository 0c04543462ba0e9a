package httpapi

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/httpd"
	"queen.internal/pkg/queue"
)

// partitionDepth is one partition of a depth.
type partitionDepth struct {
	Partition  string `json:"partition"`
	Pending    int64  `json:"pending"`
	Processing int64  `json:"processing"`
	Ready      int64  `json:"ready"`
}

// depth is the answer of a count. Its effective figures are those of a group that conflates, which is not offered.
type depth struct {
	Queue             string           `json:"queue"`
	Group             *string          `json:"group"`
	Pending           int64            `json:"pending"`
	Partitions        []partitionDepth `json:"partitions"`
	PartitionsPending int              `json:"partitionsPending"`
	Conflation        bool             `json:"conflation"`
	EffectivePending  int64            `json:"effectivePending"`
	Processing        int64            `json:"processing"`
	Ready             int64            `json:"ready"`
	PartitionsReady   int              `json:"partitionsReady"`
	EffectiveReady    int64            `json:"effectiveReady"`
	Truncated         bool             `json:"truncated"`
}

func (a *API) depth(c *gin.Context) {
	path, err := names(c, "queue")
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	query, err := readQuery(c)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	list, err := query.limit()
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	name, err := query.name("group")
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	d, found, err := a.Groups.Depth(c.Request.Context(), httpd.Tenant(c), path[0], name, list)
	if err == nil && !found {
		err = queue.NotFound("Queue not found")
	}
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	answer := depth{
		Queue: path[0], Group: name, Pending: d.Pending, Partitions: make([]partitionDepth, len(d.Listed)), PartitionsPending: d.PartitionsPending,
		EffectivePending: d.Pending, Processing: d.Processing, Ready: d.Pending - d.Processing, PartitionsReady: d.PartitionsReady,
		EffectiveReady: d.Pending - d.Processing, Truncated: len(d.Listed) < d.Partitions,
	}
	for i, p := range d.Listed {
		answer.Partitions[i] = partitionDepth{Partition: p.Name, Pending: p.Pending, Processing: p.Processing, Ready: p.Pending - p.Processing}
	}
	slices.SortFunc(answer.Partitions, func(x, y partitionDepth) int { return cmp.Compare(x.Partition, y.Partition) })
	httpd.JSON(c, http.StatusOK, answer)
}
