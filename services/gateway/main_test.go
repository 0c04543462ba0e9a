package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"queen.internal/pkg/config"
	"queen.internal/pkg/daemon"
	"queen.internal/pkg/logging"
)

// This binary is also the programs that the tests run as processes, chosen by the environment.
const (
	playVariable = "QUEEN_TEST_PLAY"
	playGateway  = "gateway"
	playService  = "service"
)

func TestMain(m *testing.M) {
	switch os.Getenv(playVariable) {
	case playGateway:
		main()
		return
	case playService:
		playAService()
		return
	}
	goleak.VerifyTestMain(m)
}

// patience is a safety net, not a measure.
const patience = 30 * time.Second

// playAService is a process of a role: it prints its address, answers pushes with its process id and parks pops.
func playAService() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("http://%s\n", l.Addr())
	go func() { // the test's end of the pipe closes with the test, however that ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	_ = http.Serve(l, serviceHandler(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Println("parked")
			<-r.Context().Done()
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, os.Getpid())
	}))
}

// serviceHandler answers probes as a healthy service and gives the rest to handler.
func serviceHandler(handler http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/readyz":
		case "/health":
			fmt.Fprint(w, `{"status":"healthy","database":"connected","engine":"segments-go","version":"test"}`)
		default:
			handler(w, r)
		}
	})
}

// process is a running child.
type process struct {
	*exec.Cmd
	url    string
	parked <-chan struct{}
}

// startService runs a service as a process of its own.
func startService(t *testing.T) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), playVariable+"="+playService)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() {
		t.Fatal("the service prints no address")
	}
	parked, read := make(chan struct{}, 100), make(chan struct{})
	p := &process{Cmd: cmd, url: lines.Text(), parked: parked}
	go func() {
		defer close(read)
		for lines.Scan() {
			parked <- struct{}{}
		}
	}()
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait() // killed, by this or by the test
	})
	return p
}

// kill is kill -9; it returns when the operating system has closed the process's sockets.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Process.Wait(); err != nil {
		t.Fatal(err)
	}
}

// gateway is a running edge.
type gateway struct {
	url    string
	client *http.Client
	stop   func() error
	log    *lines
}

// start runs an edge on port 0 until the test ends.
func start(t *testing.T, adjust func(*settings)) *gateway {
	t.Helper()
	s := defaults()
	s.Port, s.BindAddr, s.DrainDelay = 0, "127.0.0.1", 0
	s.Ingest, s.Deliver, s.Maintainer, s.Console = nil, nil, nil, nil
	adjust(&s)
	g := &gateway{log: newLines()}
	env := daemon.Env{Service: "gateway", Version: "test", Logger: logging.New(g.log, logging.Settings{Filter: "debug"}), Stdout: io.Discard}
	ctx, cancel := context.WithCancel(context.Background())
	listening, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- serve(ctx, env, s, func(url string) { listening <- url }) }()
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	g.client = &http.Client{Transport: transport, Timeout: patience}
	stopped := false
	g.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		defer transport.CloseIdleConnections()
		return receive(t, ended, "the end of the gateway")
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := g.stop(); err != nil {
			t.Errorf("the gateway ended with %v", err)
		}
		if t.Failed() {
			t.Logf("its log:\n%s", g.log)
		}
	})
	select {
	case g.url = <-listening:
	case err := <-ended:
		t.Fatalf("the gateway ended with %v", err)
	case <-time.After(patience):
		t.Fatal("the gateway does not listen")
	}
	return g
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func (g *gateway) do(t *testing.T, method, path, body string) answer {
	t.Helper()
	a, err := g.try(method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (g *gateway) try(method, path, body string) (answer, error) {
	r, err := http.NewRequest(method, g.url+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	res, err := g.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(text)}, err
}

// service starts a healthy server in this process.
func service(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(serviceHandler(handler))
	t.Cleanup(server.Close)
	return server
}

func receive[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

func list(urls ...string) config.List { return urls }
