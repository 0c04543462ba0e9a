package pg

import (
	"fmt"
	"strconv"
	"strings"
)

// MinServerMajor is the oldest major version of PostgreSQL the schema works on.
const MinServerMajor = 15

// ServerTooOldError says that the server is older than MinServerMajor. Waiting does not heal it.
type ServerTooOldError struct{ Version string }

func (e *ServerTooOldError) Error() string {
	return fmt.Sprintf("PostgreSQL %d or newer is required, the server is %s", MinServerMajor, e.Version)
}

// CheckServerVersion takes the server's own server_version, such as "15.14 (Debian 15.14-0+deb12u1)" or "17beta2", and
// returns a *ServerTooOldError below MinServerMajor. A text without a leading number is accepted: a pooler may hide it.
func CheckServerVersion(version string) error {
	end := strings.IndexFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(version)
	}
	major, err := strconv.Atoi(version[:end])
	if err == nil && major < MinServerMajor {
		return &ServerTooOldError{Version: version}
	}
	return nil
}
