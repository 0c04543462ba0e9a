package pipe_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"queen.internal/pkg/pgtest"
	"queen.internal/test/chaos/internal/pipe"
	"queen.internal/test/internal/cell"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.CheckLeaks) }

// echo answers each line with itself until the test ends; heard gets them.
type echo struct {
	net.Listener
	heard chan string
}

func listen(t *testing.T, address string) *echo {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{l, make(chan string, 100)}
	t.Cleanup(func() { _ = l.Close() }) // some tests close it themselves
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					e.heard <- lines.Text()
					if _, err := fmt.Fprintln(conn, lines.Text()); err != nil {
						return
					}
				}
			}()
		}
	}()
	return e
}

func (e *echo) port() int { return e.Addr().(*net.TCPAddr).Port }

func between(t *testing.T, port int) *pipe.Pipe {
	t.Helper()
	p, err := pipe.New("client", "server", port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

type conn struct {
	net.Conn
	*bufio.Reader
	*testing.T
}

func dial(t *testing.T, p *pipe.Pipe) *conn {
	t.Helper()
	c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", p.Port()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the pipe may have closed it
	return &conn{c, bufio.NewReader(c), t}
}

func (c *conn) say(text string) {
	c.Helper()
	if _, err := fmt.Fprintln(c.Conn, text); err != nil {
		c.Fatal(err)
	}
}

// hear waits for an answer.
func (c *conn) hear(want string) {
	c.Helper()
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		c.Fatal(err)
	}
	if got, err := c.ReadString('\n'); err != nil || got != want+"\n" {
		c.Fatalf("%q, %v; want %q", got, err, want)
	}
}

// hearEnd waits for the end of the connection.
func (c *conn) hearEnd() {
	c.Helper()
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		c.Fatal(err)
	}
	var late net.Error
	if got, err := c.ReadString('\n'); err == nil || errors.As(err, &late) && late.Timeout() {
		c.Fatalf("%q, %v; want the end", got, err)
	}
}

func TestWhatIsHeldArrivesLaterAndWhatIsLostDoesNot(t *testing.T) {
	t.Parallel()
	server := listen(t, "127.0.0.1:0")
	p := between(t, server.port())
	c := dial(t, p)
	c.say("one")
	c.hear("one")
	if p.Waiting() != 0 {
		t.Error("answered, and waiting")
	}
	<-server.heard

	p.Set(pipe.State{Down: pipe.Hold})
	c.say("two")
	if <-server.heard != "two" || p.Waiting() != 1 {
		t.Error("the question did not arrive, or nobody waits")
	}
	p.Heal()
	c.hear("two")

	p.Set(pipe.State{Up: pipe.Hold, Down: pipe.Hold})
	c.say("three")
	p.Heal()
	c.hear("three")
	<-server.heard

	p.Set(pipe.State{Down: pipe.Lose})
	c.say("four")
	<-server.heard
	next := dial(t, p)
	next.say("five")
	<-server.heard
	cell.Eventually(t, func() bool { return p.Waiting() == 0 }) // both answers are read, and dropped
	p.Heal()
	c.hearEnd()
	next.hearEnd()
	again := dial(t, p)
	again.say("six")
	again.hear("six")
}

func TestADelayedQuestionArrivesAfterItsDelay(t *testing.T) {
	t.Parallel()
	server := listen(t, "127.0.0.1:0")
	p := between(t, server.port())
	c := dial(t, p)
	p.Set(pipe.State{Delay: 300 * time.Millisecond})
	begun := time.Now()
	c.say("far")
	c.hear("far")
	if took := time.Since(begun); took < 300*time.Millisecond {
		t.Errorf("it took %v", took)
	}
	p.Set(pipe.State{Rate: 100})
	begun = time.Now()
	c.say("1234567890123456789")
	c.hear("1234567890123456789")
	if took := time.Since(begun); took < 400*time.Millisecond { // 20 bytes there and 20 back
		t.Errorf("it took %v", took)
	}
}

func TestWhoDialsIsRefusedWhileNobodyListens(t *testing.T) {
	t.Parallel()
	server := listen(t, "127.0.0.1:0")
	p := between(t, server.port())
	c := dial(t, p)
	c.say("one")
	c.hear("one")

	p.Set(pipe.State{Refuse: true})
	refused(t, p)
	c.say("connected before")
	c.hear("connected before")
	p.Heal()
	accepted(t, p)

	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if first, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", p.Port())); err == nil { // the one that finds out
		(&conn{first, bufio.NewReader(first), t}).hearEnd()
		_ = first.Close()
	}
	refused(t, p)
	listen(t, server.Addr().String())
	accepted(t, p)
	p.Cut(true)
	c.hearEnd()
}

func refused(t *testing.T, p *pipe.Pipe) {
	t.Helper()
	cell.Eventually(t, func() bool {
		c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", p.Port()))
		if err == nil {
			_ = c.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
}

func accepted(t *testing.T, p *pipe.Pipe) {
	t.Helper()
	cell.Eventually(t, func() bool {
		c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", p.Port()))
		if err != nil {
			return false
		}
		one := &conn{c, bufio.NewReader(c), t}
		one.say("back")
		one.hear("back")
		return c.Close() == nil
	})
}

// The server has committed, and its client never hears of it.
func TestASnippedAnswerIsThatOfACommit(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if _, err := db.Pool.Exec(t.Context(), `CREATE TABLE notes (n int)`); err != nil {
		t.Fatal(err)
	}
	p := between(t, db.Config.Port)
	connect := func() *pgx.Conn {
		c, err := pgx.Connect(t.Context(), fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/%s?sslmode=disable", db.Config.User, db.Config.Password,
			p.Port(), db.Config.Database))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(t.Context()) }) // the test cuts it
		return c
	}
	c := connect()
	if _, err := c.Exec(t.Context(), `INSERT INTO notes VALUES (1)`); err != nil {
		t.Fatal(err)
	}
	p.Set(pipe.State{Snip: true})
	if _, err := c.Exec(t.Context(), `INSERT INTO notes VALUES (2)`, pgx.QueryExecModeSimpleProtocol); err == nil {
		t.Error("no error")
	}
	connect() // the welcome is not cut
	if p.Snipped() != 1 {
		t.Errorf("%d answers were cut", p.Snipped())
	}
	var stored int
	if err := db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM notes`).Scan(&stored); err != nil || stored != 2 {
		t.Errorf("%d rows, %v", stored, err)
	}
}
