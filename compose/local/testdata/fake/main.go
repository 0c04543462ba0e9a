// Command fake stands in for a service in the runner's tests: a real process with a real listener whose behaviour
// the environment chooses.
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

func main() {
	if reason := os.Getenv("FAKE_REFUSE"); reason != "" {
		fmt.Fprintln(os.Stderr, "fatal: "+reason)
		os.Exit(1)
	}
	// FAKE_UNHEALTHY is how many times /health says no before it says yes.
	unhealthy, _ := strconv.ParseInt(os.Getenv("FAKE_UNHEALTHY"), 10, 64)
	var asked atomic.Int64
	http.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) <= unhealthy {
			http.Error(w, `{"status":"unhealthy"}`, http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("/crash", func(http.ResponseWriter, *http.Request) {
		fmt.Fprintln(os.Stderr, "fatal: asked to crash")
		os.Exit(3)
	})
	http.HandleFunc("/env", func(w http.ResponseWriter, _ *http.Request) {
		env := map[string]string{}
		for _, entry := range os.Environ() {
			name, value, _ := strings.Cut(entry, "=")
			env[name] = value
		}
		_ = json.NewEncoder(w).Encode(env)
	})
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	listener, err := net.Listen("tcp", net.JoinHostPort(os.Getenv("QUEEN_BIND_ADDR"), os.Getenv("PORT")))
	if err != nil {
		fmt.Fprintln(os.Stderr, "fatal:", err)
		os.Exit(1)
	}
	go func() { fmt.Fprintln(os.Stderr, "fatal:", http.Serve(listener, nil)) }()
	fmt.Println("serving on", listener.Addr())
	for sig := range signals {
		fmt.Println("stopping because of", sig)
		if os.Getenv("FAKE_STUBBORN") == "" {
			return
		}
	}
}
