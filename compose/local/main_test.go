package local

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// holderVariable makes this test program run a stack in the named folder until it is stopped or killed.
const holderVariable = "QUEEN_TEST_STACK_HOLDER"

// binariesVariable tells it where the stand-ins are.
const binariesVariable = "QUEEN_TEST_STACK_BINARIES"

// stackLimit is a safety net for what takes seconds.
const stackLimit = 2 * time.Minute

// binaries is the folder with the stand-ins for the services, made by TestMain.
var binaries string

func TestMain(m *testing.M) {
	if dir := os.Getenv(holderVariable); dir != "" {
		holdStack(dir)
	}
	folder, err := os.MkdirTemp("", "queen-stack-test-")
	if err != nil {
		panic(err)
	}
	binaries = folder
	if err := buildStandIns(folder); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(folder)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func buildStandIns(folder string) error {
	for _, s := range services {
		target := filepath.Join(folder, s.binary)
		if s.binary != services[0].binary {
			if err := os.Link(filepath.Join(folder, services[0].binary), target); err != nil {
				return err
			}
			continue
		}
		if out, err := exec.Command("go", "build", "-o", target, "./testdata/fake").CombinedOutput(); err != nil {
			return fmt.Errorf("build the stand-in: %w: %s", err, out)
		}
	}
	return nil
}

// holdStack is `make up` without its frame: it stops on a signal, and can be killed.
func holdStack(dir string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := Start(ctx, Options{Dir: dir, Binaries: os.Getenv(binariesVariable), Throwaway: true})
	if err != nil {
		panic(err)
	}
	fmt.Println("up")
	<-ctx.Done()
	if err := s.Stop(context.Background()); err != nil {
		panic(err)
	}
	os.Exit(0)
}

// record is a merged log that can be waited on.
type record struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func (r *record) await(t *testing.T, part string) {
	t.Helper()
	if !waitUntil(t.Context(), stackLimit, func() bool { return strings.Contains(r.String(), part) }) {
		t.Fatalf("the merged log never said %q:\n%s", part, r)
	}
}

// startStack runs a throw-away stack of stand-ins until the end of the test.
func startStack(t *testing.T, opts Options) (*Stack, *record) {
	t.Helper()
	log := &record{}
	if opts.Dir == "" {
		opts.Dir = t.TempDir()
	}
	opts.Binaries, opts.Log, opts.Throwaway = binaries, log, true
	ctx, cancel := context.WithTimeout(t.Context(), stackLimit)
	defer cancel()
	s, err := Start(ctx, opts)
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s, log
}

// get returns the status of an answer, or 0 when there was none, and its body.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func environmentOf(t *testing.T, url string) map[string]string {
	t.Helper()
	_, body := get(t, url+"/env")
	var env map[string]string
	if err := json.Unmarshal([]byte(body), &env); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return env
}
