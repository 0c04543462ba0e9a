package pgserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"queen.internal/pkg/pgserver/process"
)

// holderVariable makes this test program start a throw-away server and wait to be killed.
const holderVariable = "QUEEN_TEST_PGSERVER_HOLDER"

func TestMain(m *testing.M) {
	if os.Getenv(holderVariable) != "" {
		holdServer()
	}
	goleak.VerifyTestMain(m)
}

func holdServer() {
	s, err := Start(context.Background(), Options{Throwaway: true})
	if err != nil {
		panic(err)
	}
	fmt.Println(s.PID(), s.Folder())
	select {}
}

// kept starts a server whose folder stays, in a place that its user can enter.
func kept(t *testing.T, folder string) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := Start(ctx, Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func serverFolder(t *testing.T) string {
	t.Helper()
	path, err := TemporaryFolder()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(path); err != nil {
			t.Error(err)
		}
	})
	return path
}

func query(t *testing.T, dsn, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }() // only read from
	var got string
	if err := conn.QueryRow(t.Context(), sql).Scan(&got); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return got
}

func execute(t *testing.T, dsn, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }() // what was executed is committed
	if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestServer(t *testing.T) {
	t.Parallel()
	folder := serverFolder(t)
	// An unfinished cluster of an interrupted first start must not be in the way.
	if err := os.MkdirAll(filepath.Join(folder, "data.new", "base"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := kept(t, folder)

	for setting, want := range map[string]string{
		"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "listen_addresses": "127.0.0.1",
		"unix_socket_directories": "", "password_encryption": "scram-sha-256",
	} {
		if got := query(t, s.DSN("postgres"), "SHOW "+setting); got != want {
			t.Errorf("%s = %q, want %q", setting, got, want)
		}
	}
	if got := query(t, s.DSN("postgres"), `SELECT string_agg(DISTINCT auth_method, ' ') FROM pg_hba_file_rules`); got != "scram-sha-256" {
		t.Errorf("connections are let in by %s", got)
	}
	wrong := strings.Replace(s.DSN("postgres"), s.Password(), "wrong", 1)
	var refused *pgconn.PgError
	if _, err := pgx.Connect(t.Context(), wrong); !errors.As(err, &refused) || refused.Code != "28P01" {
		t.Errorf("a wrong password: %v", err)
	}
	info, err := os.Stat(filepath.Join(s.Folder(), "data", "postmaster.pid"))
	if err != nil || info.Sys().(*syscall.Stat_t).Uid == 0 {
		t.Errorf("the server runs as root, or %v", err)
	}
	if _, err := Start(t.Context(), Options{Folder: folder}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second server in the same folder: %v", err)
	}

	for range 2 { // the second time everything is there already
		if err := s.EnsureDatabase(t.Context(), "queen", "queen"); err != nil {
			t.Fatal(err)
		}
	}
	owner := s.RoleDSN("queen", "queen")
	if got := query(t, owner, `SELECT current_user || ' ' || usesuper FROM pg_user WHERE usename = current_user`); got != "queen false" {
		t.Errorf("role is %q", got)
	}
	execute(t, owner, `CREATE SCHEMA kept; CREATE TABLE kept.t AS SELECT 'survives'::text AS v`)
	survives(t, s, folder)
}

// survives stops, crashes and orphans the server in turn and looks for the committed row each time.
func survives(t *testing.T, s *Server, folder string) {
	t.Helper()
	const read = `SELECT v FROM kept.t`
	port := s.Port()
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = kept(t, folder)
	if got := query(t, s.RoleDSN("queen", "queen"), read); got != "survives" || s.Port() != port {
		t.Errorf("after a stop: %q on port %d, before on %d", got, s.Port(), port)
	}

	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	s = kept(t, folder)
	if got := query(t, s.RoleDSN("queen", "queen"), read); got != "survives" {
		t.Errorf("after a crash: %q", got)
	}

	// The program that held the server is gone, the server is not.
	s.closeHolders()
	old := s
	s = kept(t, folder)
	select {
	case <-old.Done():
	default:
		t.Error("the left-over server still runs")
	}
	if got := query(t, s.RoleDSN("queen", "queen"), read); got != "survives" {
		t.Errorf("after a left-over server: %q", got)
	}

	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The old port is taken, and postmaster.pid names a process that lives but is no server: this one.
	taken, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }() // nothing was written
	stale := fmt.Sprintf("%d\n%s\n", os.Getpid(), s.folder.data())
	if err := os.WriteFile(s.folder.postmasterFile(), []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}
	s = kept(t, folder)
	if got := query(t, s.RoleDSN("queen", "queen"), read); got != "survives" || s.Port() == port {
		t.Errorf("with the port taken and a stale pid file: %q on port %d", got, s.Port())
	}
}

func TestStartFailsWithTheServersOwnWords(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }() // nothing was written
	port := taken.Addr().(*net.TCPAddr).Port
	folder := serverFolder(t)
	_, err = Start(t.Context(), Options{Folder: folder, Throwaway: true, Port: port})
	if err == nil || !strings.Contains(err.Error(), "could not create any TCP/IP sockets") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error of a taken port: %v", err)
	}
	if exists(folder) {
		t.Error("the throw-away folder of a failed start is still there")
	}
}

func TestThrowawayServerEndsWithItsHolder(t *testing.T) {
	t.Parallel()
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), holderVariable+"=1")
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	first, folder, _ := strings.Cut(strings.TrimSpace(line), " ")
	pid, err := strconv.Atoi(first)
	if err != nil || !strings.Contains(process.CommandLine(pid), folder) {
		t.Fatalf("holder printed %q, %v", line, err)
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	gone := func() bool { return process.CommandLine(pid) == "" && !exists(folder) }
	if err := poll(ctx, gone); err != nil {
		t.Errorf("the server (pid %d) or its folder %s outlived its holder", pid, folder)
	}
}
