package schema_test

import (
	"errors"
	"fmt"
	"testing"

	"queen.internal/pkg/queue"
	"queen.internal/pkg/schema"
)

func TestPublicKeepsTheDriversWordsToItself(t *testing.T) {
	t.Parallel()
	secret := errors.New("dial tcp 10.1.2.3:5432: refused for user=queen")
	for _, err := range []error{secret, queue.Unavailable("the database is not available", 0, secret), fmt.Errorf("ping: %w", secret)} {
		got := schema.Public(err).Error()
		if got != "the database does not answer" && got != "the database is not available" {
			t.Errorf("%v becomes %q", err, got)
		}
	}
	if schema.Public(nil) != nil {
		t.Error("no error becomes one")
	}
	missing := &schema.MissingError{}
	if got := schema.Public(fmt.Errorf("check: %w", missing)); got != error(missing) {
		t.Errorf("a missing version becomes %v", got)
	}
}
