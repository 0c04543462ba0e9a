package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The tests in this file set environment variables, which belong to the whole process: they cannot run in parallel.

type settings struct {
	HTTP
	Postgres
	Logging
	Tenancy
	Peers List `envconfig:"QUEEN_MESH_PEERS"`
	Label string
}

func defaults() settings {
	return settings{HTTP: NewHTTP("ingest"), Postgres: NewPostgres(6), Logging: NewLogging(), Peers: List{"self"}}
}

type plain struct {
	HTTP
	Postgres
	Logging
	Tenancy
	Peers List `envconfig:"QUEEN_MESH_PEERS"`
}

func plainDefaults() plain {
	return plain{HTTP: NewHTTP("ingest"), Postgres: NewPostgres(6), Logging: NewLogging(), Peers: List{"self"}}
}

// clean makes the tests independent of the environment they run in.
func clean(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		"PORT", "QUEEN_BIND_ADDR", "QUEEN_MAX_BODY_BYTES", "QUEEN_DRAIN_DELAY_MS", "QUEEN_SHUTDOWN_TIMEOUT_MS", "DB_POOL_SIZE",
		"QUEEN_STMT_TIMEOUT_MS", "QUEEN_APPLY_SCHEMA", "PG_PORT", "PG_USE_SSL", "PG_SSL_REJECT_UNAUTHORIZED", "PG_DATABASE", "PG_DB",
		"RUST_LOG", "LOG_LEVEL", "QUEEN_LOG_JSON", "QUEEN_TENANCY_HEADER", "QUEEN_KV_TRUSTED_PROXY",
	} {
		t.Setenv(name, "")
	}
	t.Setenv("PG_HOST", "localhost")
	t.Setenv("PG_USER", "postgres")
	t.Setenv("PG_PASSWORD", "postgres")
	t.Setenv("PG_SSL_ROOT_CERT", "")
	t.Setenv("QUEEN_BIND_ADDR", "0.0.0.0")
	t.Setenv("QUEEN_MESH_PEERS", "self")
}

func TestLoadKeepsDefaultsForBlankVariables(t *testing.T) {
	clean(t)
	got := plainDefaults()
	if err := Load(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plainDefaults(), got); diff != "" {
		t.Errorf("settings differ from the defaults (-want +got):\n%s", diff)
	}
	if addr := got.Addr(); addr != "0.0.0.0:6641" {
		t.Errorf("ingest listens on %s", addr)
	}
}

func TestLoadReadsEveryBlock(t *testing.T) {
	clean(t)
	for name, value := range map[string]string{
		"PORT": "0", "QUEEN_BIND_ADDR": "::1", "PG_HOST": "", "PG_PASSWORD": " s p ", "PG_DB": "queen", "PG_USE_SSL": " ON ",
		"DB_POOL_SIZE": "0", "QUEEN_STMT_TIMEOUT_MS": "-3", "QUEEN_APPLY_SCHEMA": "0", "LOG_LEVEL": "debug", "RUST_LOG": " ",
		"QUEEN_MESH_PEERS": " a:1, ,b:2 ", "QUEEN_TENANCY_HEADER": "yes", "QUEEN_KV_TRUSTED_PROXY": "1",
	} {
		t.Setenv(name, value)
	}
	got := plainDefaults()
	if err := Load(&got); err != nil {
		t.Fatal(err)
	}
	want := plainDefaults()
	want.HTTP.Port, want.BindAddr = 0, "::1"
	want.Postgres.Host = "" // present but empty stays empty
	want.Postgres.Password, want.Postgres.Database, want.Postgres.UseSSL, want.Postgres.ApplySchema = " s p ", "queen", true, false
	want.Postgres.PoolSize, want.Postgres.StmtTimeout = 1, 1 // raised to their floors
	want.Logging.Level, want.Peers = "debug", List{"a:1", "b:2"}
	want.Tenancy = Tenancy{Header: true, TrustedProxy: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if addr := got.Addr(); addr != "[::1]:0" {
		t.Errorf("address is %s", addr)
	}
}

func TestLoadTakesTheFirstNameOfAChainThatIsNotBlank(t *testing.T) {
	clean(t)
	t.Setenv("PG_DATABASE", "first")
	t.Setenv("PG_DB", "second")
	t.Setenv("RUST_LOG", "warn")
	t.Setenv("LOG_LEVEL", "debug")
	got := plainDefaults()
	if err := Load(&got); err != nil {
		t.Fatal(err)
	}
	if got.Database != "first" || got.Level != "warn" {
		t.Errorf("database %q, level %q", got.Database, got.Level)
	}
}

func TestLoadNamesVariableAndValueOfAMistake(t *testing.T) {
	for _, tc := range []struct{ name, value, want string }{
		{"PG_USE_SSL", "maybe", `PG_USE_SSL="maybe" is not a boolean (expected true/false, 1/0, yes/no, on/off)`},
		{"QUEEN_APPLY_SCHEMA", " Y ", `QUEEN_APPLY_SCHEMA=" Y " is not a boolean (expected true/false, 1/0, yes/no, on/off)`},
		{"DB_POOL_SIZE", "16O", `DB_POOL_SIZE="16O" is not an integer`},
		{"QUEEN_STMT_TIMEOUT_MS", "5 ", `QUEEN_STMT_TIMEOUT_MS="5 " is not an integer`},
		{"QUEEN_MAX_BODY_BYTES", "99999999999999999999", `QUEEN_MAX_BODY_BYTES="99999999999999999999" is not an integer of at most 64 bits`},
		{"PG_PORT", "0", `PG_PORT="0" is not between 1 and 65535`},
		{"PORT", "70000", `PORT="70000" is not between 0 and 65535`},
		{"QUEEN_BIND_ADDR", "0.0.0.0:80", `QUEEN_BIND_ADDR="0.0.0.0:80" carries a port (set PORT instead)`},
		{"QUEEN_BIND_ADDR", "[::1]:80", `QUEEN_BIND_ADDR="[::1]:80" carries a port (set PORT instead)`},
		{"QUEEN_TENANCY_HEADER", "on", `QUEEN_TENANCY_HEADER="true" needs QUEEN_KV_TRUSTED_PROXY="true": ` +
			`only a front door that sets x-queen-tenant itself may reach this service`},
	} {
		t.Run(tc.name+"="+tc.value, func(t *testing.T) {
			clean(t)
			t.Setenv(tc.name, tc.value)
			got := plainDefaults()
			if err := Load(&got); err == nil || err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

func TestLoadRefusesStructsThatWouldReadTheWrongVariables(t *testing.T) {
	clean(t)
	untagged := defaults()
	if err := Load(&untagged); err == nil {
		t.Error("a field without a variable was accepted")
	}
	named := struct{ Listener HTTP }{NewHTTP("ingest")}
	if err := Load(&named); err == nil {
		t.Error("a block that is not embedded was accepted")
	}
	if err := Load(named); err == nil {
		t.Error("a struct that is not a pointer was accepted")
	}
}

func TestBindAddressMayBeAnyHostOrAddress(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"": ":6641", "127.0.0.1": "127.0.0.1:6641", "::": "[::]:6641", "[::1]": "[::1]:6641", "localhost": "localhost:6641",
		"fe80::1%eth0": "[fe80::1%eth0]:6641",
	} {
		h := NewHTTP("ingest")
		h.BindAddr = addr
		if err := h.Validate(); err != nil || h.Addr() != want {
			t.Errorf("%q gives %s, %v; want %s", addr, h.Addr(), err, want)
		}
	}
}
