package pg

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/config"
)

func TestFromSettingsTakesEverythingOver(t *testing.T) {
	t.Parallel()
	s := config.NewPostgres(14)
	s.Host, s.Port, s.User, s.Password, s.Database = "db", 6000, "u", "secret", "d"
	s.UseSSL, s.SSLRejectUnauthorized, s.SSLRootCert, s.StmtTimeout = true, false, "pem", 1500
	want := Config{
		Host: "db", Port: 6000, User: "u", Password: "secret", Database: "d",
		UseSSL: true, RootCert: "pem", PoolSize: 14, StatementTimeout: 1500 * time.Millisecond,
	}
	if diff := cmp.Diff(want, FromSettings(s)); diff != "" {
		t.Fatal(diff)
	}
}

func TestConfigPrintsWithoutThePassword(t *testing.T) {
	t.Parallel()
	c := Config{Host: "db", Port: 5432, User: "u", Password: "secret", Database: "d"}
	for _, text := range []string{fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%v", &c), c.LogValue().String()} {
		if strings.Contains(text, "secret") || !strings.Contains(text, "u@db:5432/d") {
			t.Errorf("printed as %q", text)
		}
	}
}

func TestValidateNamesTheSetting(t *testing.T) {
	t.Parallel()
	good := Config{Host: "db", Port: 5432}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"EmptyHost":       {func(c *Config) { c.Host = "" }, "PG_HOST"},
		"PortZero":        {func(c *Config) { c.Port = 0 }, "PG_PORT=0"},
		"PortTooHigh":     {func(c *Config) { c.Port = 65536 }, "PG_PORT=65536"},
		"TLSOnSocket":     {func(c *Config) { c.Host, c.UseSSL = "/run/postgresql", true }, "unix socket"},
		"MalformedCA":     {func(c *Config) { c.RootCert = "/etc/ssl/ca.pem" }, "PG_SSL_ROOT_CERT"},
		"MalformedCAIdle": {func(c *Config) { c.RootCert, c.UseSSL = "x", false }, "PG_SSL_ROOT_CERT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := good
			tc.change(&c)
			if err := c.Validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}
