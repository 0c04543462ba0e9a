package schema

import (
	"errors"

	"queen.internal/pkg/queue"
)

// Public is what a probe that anybody may call tells of err: a missing version, or the text that its kind has for
// clients, never the driver's words with their addresses and users. Public(nil) is nil.
func Public(err error) error {
	var missing *MissingError
	var known *queue.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &missing):
		return missing
	case errors.As(err, &known):
		return errors.New(known.Message)
	}
	return errors.New("the database does not answer")
}
