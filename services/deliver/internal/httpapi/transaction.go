package httpapi

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/gin-gonic/gin"

	"queen.internal/pkg/httpd"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/wire"
	"queen.internal/services/deliver/internal/transaction"
)

// transaction answers 200 whatever became of it, once the body could be read. A body that is no JSON gets the plain error,
// every other fault of it the form that clients of this route know.
func (a *API) transaction(c *gin.Context) {
	body, err := httpd.Body(c)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	req, err := wire.ScanTransaction(body)
	if err != nil {
		a.badTransaction(c, err)
		return
	}
	httpd.Note(c, slog.Int("items", len(req.Operations)))
	answer, err := a.Transactions.Transact(c.Request.Context(), httpd.Tenant(c), httpd.Subject(c), &req)
	if err != nil {
		httpd.Fail(c, err)
		return
	}
	if answer.Failure != nil {
		failTransaction(c, &answer)
		return
	}
	_ = httpd.Raw(c, http.StatusOK, wire.AppendTransaction(nil, answer.ID, answer.Results)) // Raw has noted the error for the log
}

func (a *API) badTransaction(c *gin.Context, err error) {
	var fault *queue.Error
	if !errors.As(err, &fault) || fault.Field == "" {
		httpd.Fail(c, err)
		return
	}
	failTransaction(c, &transaction.Answer{ID: queue.NewID(), Failure: &wire.TransactionFailure{
		Error: fault.Message, Reason: wire.ReasonBadRequest, Index: -1,
	}})
}

func failTransaction(c *gin.Context, answer *transaction.Answer) {
	status := http.StatusOK
	if answer.Failure.Reason == wire.ReasonBadRequest {
		status = http.StatusBadRequest
	}
	httpd.Note(c, slog.String("reason", answer.Failure.Reason))
	_ = httpd.Raw(c, status, wire.AppendTransactionFailure(nil, answer.ID, answer.Failure)) // as above
}
