package acceptance

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"queen.internal/compose/local"
	"queen.internal/pkg/client"
	"queen.internal/pkg/route"
	"queen.internal/pkg/testkit"
	"queen.internal/test/internal/cell"
)

// world is what the cells share.
var world cell.World

// atOnce is how many tests run at once unless the command line says otherwise. Nearly all of them wait for leases and
// delays, so there are many more than cores.
const atOnce = "24"

func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(cell.Main(m, &world))
}

const (
	jwtSecret = "a secret of the acceptance tests"
	// subject is who the tokens of the guarded cell are for.
	subject = "acceptance"
	sealKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
)

// suite is a cell with what the lines must know of it.
type suite struct {
	cell    *cell.Cell
	spread  bool   // requests go to the edge and to each process in turn; else only to the edge
	token   string // of every request; empty while authentication is off
	subject string // of the token
	key     bool   // the services can encrypt

	clients map[string]*client.Client // by address
}

// single is one ingest and one deliver, which ask for tokens and cannot encrypt.
func single(t *testing.T) *suite {
	t.Helper()
	s := &suite{token: testkit.RoleToken(t, jwtSecret, "admin", subject), subject: subject}
	s.cell = world.Shared(t, "1+1", local.Options{Env: []string{"JWT_ENABLED=true", "JWT_SECRET=" + jwtSecret}})
	s.connect(t)
	return s
}

// double is two of each, with a key; they believe the tenant that a request names.
func double(t *testing.T) *suite {
	t.Helper()
	return doubleAs(t, cell.Shipped)
}

func doubleAs(t *testing.T, shape cell.Shape) *suite {
	t.Helper()
	return doubleOn(t, func(o local.Options) *cell.Cell { return world.Shared(t, "2+2 "+shape.Name, o) }, shape)
}

// doubleOn is doubleAs on a cell that start gives.
func doubleOn(t *testing.T, start func(local.Options) *cell.Cell, shape cell.Shape) *suite {
	t.Helper()
	s := &suite{spread: true, key: true}
	env := append([]string{"QUEEN_ENCRYPTION_KEY=" + sealKey, "QUEEN_TENANCY_HEADER=true", "QUEEN_KV_TRUSTED_PROXY=true"}, shape.Env...)
	s.cell = start(local.Options{Ingest: 2, Deliver: 2, Env: env})
	s.connect(t)
	return s
}

// connect makes one client for each address. They repeat nothing, so that a line sees every answer.
func (s *suite) connect(t *testing.T) {
	t.Helper()
	s.clients = map[string]*client.Client{}
	for _, address := range s.cell.All() {
		cl, err := client.New(client.Options{URL: address, Token: s.token, Attempts: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		s.clients[address] = cl
	}
}

// addresses are where a request for the role may go.
func (s *suite) addresses(role route.Role) []string {
	switch {
	case s.spread && role == route.Ingest:
		return append([]string{s.cell.Edge}, s.cell.Ingest...)
	case s.spread && role == route.Deliver:
		return append([]string{s.cell.Edge}, s.cell.Deliver...)
	default:
		return []string{s.cell.Edge}
	}
}
