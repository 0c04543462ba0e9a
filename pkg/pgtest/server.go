package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgserver"
)

const (
	// serverVariable names a running server: the connection string of a superuser. `make test` sets it.
	serverVariable = "QUEEN_TEST_PG"
	// Safety nets, far above what a loaded two-core machine needs.
	startLimit = 2 * time.Minute
	workLimit  = time.Minute
	// connectionsPerTest is the most that one test may hold, so that many fit on one server.
	connectionsPerTest = 4
)

// host is the server all tests of this process share.
type host struct {
	config pg.Config        // of the superuser; Database is the maintenance database
	own    *pgserver.Server // nil when somebody else started it
}

var (
	shared     = sync.OnceValues(openHost)
	sharedUsed bool // whether shared ever ran; read by Main after all tests
)

func openHost() (*host, error) {
	sharedUsed = true
	if dsn := os.Getenv(serverVariable); dsn != "" {
		config, err := parseDSN(dsn)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", serverVariable, err)
		}
		return &host{config: config}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	server, err := pgserver.Start(ctx, pgserver.Options{Throwaway: true})
	if err != nil {
		return nil, fmt.Errorf("start a PostgreSQL for the tests: %w", err)
	}
	config, err := parseDSN(server.DSN("postgres"))
	return &host{config: config, own: server}, err
}

// parseDSN understands what pgserver prints, which is all that QUEEN_TEST_PG is for.
func parseDSN(dsn string) (pg.Config, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return pg.Config{}, errors.New("not a postgres:// address") // the text may hold a password
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil || u.Scheme != "postgres" || u.User == nil || len(u.Path) < 2 {
		return pg.Config{}, errors.New("expected postgres://user:password@host:port/database")
	}
	password, _ := u.User.Password()
	return pg.Config{
		Host: u.Hostname(), Port: port, User: u.User.Username(), Password: password, Database: u.Path[1:],
		PoolSize: connectionsPerTest,
	}, nil
}

func (h *host) database(name string) pg.Config {
	config := h.config
	config.Database = name
	return config
}

func dsn(c pg.Config) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(c.User, c.Password),
		Host: c.Host + ":" + strconv.Itoa(c.Port), Path: "/" + c.Database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// admin runs work on a connection to the maintenance database.
func (h *host) admin(ctx context.Context, work func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, dsn(h.config))
	if err != nil {
		return fmt.Errorf("connect to the test server: %w", err)
	}
	err = work(conn)
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}

// execute runs one statement on the maintenance database.
func (h *host) execute(ctx context.Context, sql string) error {
	return h.admin(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return err
	})
}
