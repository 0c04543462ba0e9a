package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"queen.internal/pkg/config"
)

// healthcheckTimeout is below the 5 s after which orchestrators kill a probe by themselves, with a worse message.
const healthcheckTimeout = 4 * time.Second

// healthcheck asks the service of the same environment whether it is ready, for images without a shell or curl.
func (p process) healthcheck() int {
	body, err := p.askReady()
	if err != nil {
		fmt.Fprintf(p.stderr, "%s healthcheck: %v\n", p.service, err)
		return exitFailure
	}
	fmt.Fprintln(p.stdout, body)
	return 0
}

func (p process) askReady() (string, error) {
	settings := struct{ config.HTTP }{config.NewHTTP(p.service)}
	if err := config.Load(&settings); err != nil {
		return "", err
	}
	if settings.Port == 0 {
		return "", errors.New("PORT is 0, so nobody knows where the service listens")
	}
	ctx, cancel := context.WithTimeout(context.Background(), healthcheckTimeout)
	defer cancel()
	url := "http://" + reachable(settings.Addr()) + "/readyz"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	// No proxy, whatever the environment says: the service is on this machine.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	const enough = 4 << 10
	body, err := io.ReadAll(io.LimitReader(res.Body, enough))
	if err != nil {
		return "", fmt.Errorf("read the answer of %s: %w", url, err)
	}
	text := strings.TrimSpace(string(body))
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %d: %s", url, res.StatusCode, text)
	}
	return text, nil
}

// reachable turns an address to listen on into one to connect to.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "":
		host = "127.0.0.1"
	case err == nil && ip.IsUnspecified() && ip.Is4():
		host = "127.0.0.1"
	case err == nil && ip.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}
