package e2e

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"queen.internal/compose/local"
)

// bootFailure runs a service with the settings and returns what it printed; it must end by itself with exit code 1.
func bootFailure(t *testing.T, service string, settings map[string]string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(world.Binaries, service))
	cmd.Env = os.Environ()
	for name, value := range settings {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("%s ended with %v, want exit code 1; it printed\n%s", service, err, out)
	}
	return string(out)
}

// fatalLine is the one line that says why the service ended.
func fatalLine(t *testing.T, output string, contains ...string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(output) {
		if strings.Contains(line, " ERROR ") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 1 {
		t.Errorf("%d lines of level ERROR, want one:\n%s", len(lines), output)
		return
	}
	for _, text := range contains {
		if !strings.Contains(lines[0], text) {
			t.Errorf("the line does not say %q: %s", text, lines[0])
		}
	}
}

func sharedSettings(t *testing.T, service string) map[string]string {
	t.Helper()
	shared(t)
	state, err := local.ReadState(shared(t).Stack.Dir())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range state.Processes {
		if p.Service == service {
			p.Env["PORT"] = freePort(t)
			return p.Env
		}
	}
	t.Fatalf("no %s in stack.json", service)
	return nil
}

func hangUp(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hangUp(t, l)
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

var withDatabase = []string{"ingest", "deliver", "maintainer", "console"}

func TestBootFailsOnATakenPort(t *testing.T) {
	t.Parallel()
	for _, service := range withDatabase {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			settings := sharedSettings(t, service)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer hangUp(t, l)
			settings["PORT"] = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
			fatalLine(t, bootFailure(t, service, settings), settings["PORT"], "in use")
		})
	}
}

func TestBootFailsOnAWrongPasswordOrDatabase(t *testing.T) {
	t.Parallel()
	for _, service := range withDatabase {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			settings := sharedSettings(t, service)
			settings["PG_PASSWORD"] = "certainly wrong"
			fatalLine(t, bootFailure(t, service, settings), "password")
			settings = sharedSettings(t, service)
			settings["PG_DATABASE"] = "no_such_database"
			fatalLine(t, bootFailure(t, service, settings), "no_such_database")
		})
	}
}

func TestBootFailsOnSettingsThatDoNotParse(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"PG_USE_SSL": "maybe", "DB_POOL_SIZE": "16O", "QUEEN_BIND_ADDR": "127.0.0.1:80", "PORT": "http"} {
		for _, service := range withDatabase {
			t.Run(service+"/"+name, func(t *testing.T) {
				t.Parallel()
				settings := sharedSettings(t, service)
				settings[name] = value
				fatalLine(t, bootFailure(t, service, settings), name, value)
			})
		}
	}
}

func TestBootFailsOnAServerThatIsTooOld(t *testing.T) {
	t.Parallel()
	settings := sharedSettings(t, "ingest")
	settings["PG_PORT"] = oldServer(t)
	fatalLine(t, bootFailure(t, "ingest", settings), "14", "15")
}

// oldServer speaks just enough of PostgreSQL's protocol to be a server of version 14 that trusts everybody.
func oldServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			greet(conn)
		}
	}()
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func greet(conn net.Conn) {
	// A fake that gives up hangs up; whoever it annoys is the one under test.
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return
	}
	length := int64(head[0])<<24 | int64(head[1])<<16 | int64(head[2])<<8 | int64(head[3])
	if _, err := io.CopyN(io.Discard, conn, length-4); err != nil {
		return
	}
	message := func(kind byte, body string) string {
		n := len(body) + 4
		return string([]byte{kind, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + body
	}
	answer := message('R', "\x00\x00\x00\x00") +
		message('S', "server_version\x0014.12\x00") + message('S', "client_encoding\x00UTF8\x00") +
		message('S', "standard_conforming_strings\x00on\x00") + message('S', "in_hot_standby\x00off\x00") +
		message('S', "default_transaction_read_only\x00off\x00") +
		message('K', "\x00\x00\x00\x01\x00\x00\x00\x01") + message('Z', "I")
	if _, err := io.WriteString(conn, answer); err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, conn) // until the client has read enough and hangs up
}

func TestVersionAndHelpNeedNothing(t *testing.T) {
	t.Parallel()
	for _, service := range append(withDatabase, "gateway") {
		for _, flag := range []string{"--version", "--help"} {
			out, err := exec.CommandContext(t.Context(), filepath.Join(world.Binaries, service), flag).CombinedOutput()
			if err != nil || len(out) == 0 {
				t.Errorf("%s %s: %v %s", service, flag, err, out)
			}
		}
	}
}

func TestHealthcheckSaysWhetherTheServiceIsHealthy(t *testing.T) {
	t.Parallel()
	c := shared(t)
	for service, address := range map[string]string{"ingest": c.Ingest[0], "gateway": c.Edge} {
		_, port, err := net.SplitHostPort(strings.TrimPrefix(address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			port    string
			healthy bool
		}{{port, true}, {freePort(t), false}} {
			cmd := exec.CommandContext(t.Context(), filepath.Join(world.Binaries, service), "healthcheck")
			cmd.Env = append(os.Environ(), "PORT="+tc.port, "QUEEN_BIND_ADDR=127.0.0.1")
			if out, err := cmd.CombinedOutput(); (err == nil) != tc.healthy {
				t.Errorf("%s on port %s: %v %s", service, tc.port, err, out)
			}
		}
	}
}
