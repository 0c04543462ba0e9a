package testkit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"queen.internal/pkg/pg"
	"queen.internal/pkg/pgtest"
	"queen.internal/pkg/testkit"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.CheckLeaks) }

// stand is a table reached through a proxy, and directly.
type stand struct {
	*testing.T
	proxy  *testkit.Proxy
	cfg    pg.Config
	direct *pg.Pool
	pool   *pg.Pool // one connection, through the proxy
}

func setup(t *testing.T) *stand {
	t.Helper()
	db := pgtest.New(t)
	if _, err := db.Pool.Exec(t.Context(), `CREATE TABLE notes (n int)`); err != nil {
		t.Fatal(err)
	}
	proxy, cfg := testkit.Between(t, db.Config)
	return &stand{T: t, proxy: proxy, cfg: cfg, direct: db.Pool, pool: testkit.Pool(t, cfg, "through", 1)}
}

const insert = `INSERT INTO notes VALUES ($1)`

func (s *stand) insert(n int) error {
	_, err := s.pool.Exec(s.Context(), insert, n)
	return err
}

func (s *stand) stored() (count int) {
	s.Helper()
	if err := s.direct.QueryRow(s.Context(), `SELECT count(*) FROM notes`).Scan(&count); err != nil {
		s.Fatal(err)
	}
	return count
}

func (s *stand) wantStored(want int) {
	s.Helper()
	if got := s.stored(); got != want {
		s.Errorf("%d rows stored, want %d", got, want)
	}
}

func TestProxyCarriesEveryFormOfStatement(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		if _, err := s.pool.Exec(t.Context(), insert, mode, 1); err != nil {
			t.Errorf("%v: %v", mode, err)
		}
	}
	s.wantStored(6)
	if n := s.proxy.Count("INSERT INTO notes"); n != 6 {
		t.Errorf("%d statements counted", n)
	}
	var batch pgx.Batch
	batch.Queue(insert, 1)
	batch.Queue(insert, 2)
	if err := s.pool.SendBatch(t.Context(), &batch).Close(); err != nil {
		t.Error(err)
	}
	if n, want := s.proxy.Count("INSERT INTO notes"), s.stored(); n != 8 || want != 8 {
		t.Errorf("%d statements counted, %d rows", n, want)
	}
	if _, err := s.pool.CopyFrom(t.Context(), pgx.Identifier{"notes"}, []string{"n"}, pgx.CopyFromRows([][]any{{1}, {2}})); err != nil {
		t.Error(err)
	}
	s.wantStored(10)
	var long string
	if err := s.pool.QueryRow(t.Context(), `SELECT repeat('x', 3000000)`).Scan(&long); err != nil || len(long) != 3_000_000 {
		t.Errorf("%d bytes, %v", len(long), err)
	}
}

func TestProxyDropsTheAnswerOfWhatWasCommitted(t *testing.T) {
	t.Parallel()
	s := setup(t)
	if err := s.insert(0); err != nil {
		t.Fatal(err)
	}
	first, third := s.proxy.Next(testkit.DropAnswer, "INSERT"), s.proxy.Nth(3, testkit.DropAnswer, "INSERT")
	if err := s.insert(1); !pg.CommitUnknown(err) {
		t.Errorf("first: %v", err)
	}
	first.Await(t)
	s.wantStored(2)
	if a := first.Answer(t); a.Tag != "INSERT 0 1" || a.SQLState != "" || a.Status != 'I' {
		t.Errorf("%+v", a)
	}
	if err := s.insert(2); err != nil {
		t.Error(err)
	}
	if err := s.insert(3); !pg.CommitUnknown(err) {
		t.Errorf("third: %v", err)
	}
	third.Await(t)
	s.wantStored(4)
}

func TestProxyTellsTheErrorInADroppedAnswer(t *testing.T) {
	t.Parallel()
	s := setup(t)
	drop := s.proxy.Next(testkit.DropAnswer, "1/0")
	if _, err := s.pool.Exec(t.Context(), `SELECT 1/0`, pgx.QueryExecModeSimpleProtocol); err == nil {
		t.Error("no error")
	}
	if a := drop.Answer(t); a.SQLState != "22012" || a.Tag != "" {
		t.Errorf("%+v", a)
	}
}

func TestProxyCutsBeforeTheServerSeesTheStatement(t *testing.T) {
	t.Parallel()
	s := setup(t)
	cut := s.proxy.Next(testkit.CutStatement, "INSERT")
	if err := s.insert(1); err == nil {
		t.Error("no error")
	}
	cut.Await(t)
	if err := s.insert(2); err != nil {
		t.Error(err)
	}
	s.wantStored(1)
}

func TestProxyHoldsAStatementAndAnAnswer(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for i, test := range []struct {
		action    testkit.Action
		meanwhile int
	}{{testkit.HoldStatement, 0}, {testkit.HoldAnswer, 2}} {
		trap := s.proxy.Next(test.action, "INSERT")
		done := make(chan error, 1)
		go func() { done <- s.insert(i) }()
		trap.Await(t)
		s.wantStored(test.meanwhile)
		select {
		case err := <-done:
			t.Errorf("answered while held: %v", err)
		default:
		}
		trap.Release()
		if err := <-done; err != nil {
			t.Error(err)
		}
		s.wantStored(i + 1)
	}
}

// What a kernel has accepted arrives, however late.
func TestProxyForwardsWhatAClientSentBeforeItHungUp(t *testing.T) {
	t.Parallel()
	s := setup(t)
	trap := s.proxy.Next(testkit.HoldStatement, "INSERT")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.pool.Exec(ctx, insert, 1)
		done <- err
	}()
	trap.Await(t)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s.wantStored(0)
	trap.Release()
	if a := trap.Answer(t); a.Tag != "INSERT 0 1" {
		t.Errorf("%+v", a)
	}
	s.wantStored(1)
}

func TestProxyHoldsTheEndOfAnExchange(t *testing.T) {
	t.Parallel()
	s := setup(t)
	if err := s.insert(0); err != nil { // prepares it
		t.Fatal(err)
	}
	trap := s.proxy.Next(testkit.HoldEnd, "INSERT")
	done := make(chan error, 1)
	go func() { done <- s.insert(1) }()
	trap.Await(t)
	s.wantStored(1)
	trap.Release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.wantStored(2)
}

func TestProxyDelays(t *testing.T) {
	t.Parallel()
	s := setup(t)
	began := time.Now()
	s.proxy.Delay(50*time.Millisecond, "INSERT")
	if err := s.insert(1); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("took %v", took)
	}
}

func TestProxyStallsAndResumes(t *testing.T) {
	t.Parallel()
	s := setup(t)
	if err := s.insert(0); err != nil {
		t.Fatal(err)
	}
	s.proxy.Stall()
	s.proxy.Stall() // is stalled
	done := make(chan error, 2)
	go func() { done <- s.insert(1) }()
	s.proxy.AwaitCount(t, "INSERT", 2)
	other := testkit.Pool(t, s.cfg, "late", 1)
	go func() { // a connection that is made meanwhile hangs too
		_, err := other.Exec(t.Context(), insert, 2)
		done <- err
	}()
	s.wantStored(1)
	if n := s.proxy.Connections(); n < 1 {
		t.Errorf("%d connections", n)
	}
	s.proxy.Resume()
	s.proxy.Resume()
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	s.wantStored(3)
}

func TestProxyPassesCancelRequestsOn(t *testing.T) {
	t.Parallel()
	s := setup(t)
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	done := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), `SELECT pg_sleep(60)`)
		done <- err
	}()
	s.proxy.AwaitCount(t, "pg_sleep", 1)
	for {
		if err := conn.Conn().PgConn().CancelRequest(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			var state *pgconn.PgError
			if !errors.As(err, &state) || state.Code != "57014" {
				t.Error(err)
			}
			return
		default: // the request came before the statement had begun
		}
	}
}

func TestProxyCutsAllAndTakesNewConnections(t *testing.T) {
	t.Parallel()
	s := setup(t)
	if err := s.insert(0); err != nil {
		t.Fatal(err)
	}
	trap := s.proxy.Next(testkit.HoldAnswer, "INSERT")
	done := make(chan error, 1)
	go func() { done <- s.insert(1) }()
	trap.Await(t)
	s.proxy.Cut()
	if err := <-done; err == nil {
		t.Error("no error")
	}
	if err := s.insert(2); err != nil {
		t.Error(err)
	}
	s.wantStored(3)
}

func TestProxyThatIsClosedLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s := setup(t)
	if err := s.insert(0); err != nil {
		t.Fatal(err)
	}
	s.proxy.Stall()
	trap := s.proxy.Next(testkit.HoldStatement, "INSERT")
	done := make(chan error, 1)
	go func() { done <- s.insert(1) }()
	trap.Await(t)
	s.proxy.Close()
	if err := <-done; err == nil {
		t.Error("no error")
	}
	if n := s.proxy.Connections(); n != 0 {
		t.Errorf("%d connections left", n)
	}
	s.proxy.Close()
	if err := s.insert(2); err == nil {
		t.Error("a closed proxy took a connection")
	}
}
