package pg_test

import (
	"testing"

	"queen.internal/pkg/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.CheckLeaks) }
