package load

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// configure creates a queue.
func configure(ctx context.Context, edge, queue, options string) error {
	body := fmt.Sprintf(`{"queue":%q,"options":%s}`, queue, options)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, edge+"/api/v1/configure", strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("configure %s: %w", queue, err)
	}
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("configure %s: %w", queue, err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return fmt.Errorf("configure %s: %d %s (%v)", queue, answer.StatusCode, text, err)
	}
	return nil
}
