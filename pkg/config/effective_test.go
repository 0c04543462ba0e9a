package config

import (
	"bytes"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// logged is what logEffective writes, without the time.
func logged(environ []string, settings any, blocks ...Block) string {
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	logEffective(logger, environ, settings, blocks)
	return out.String()
}

func TestEffectiveSettingsPrintOneMaskedLinePerBlock(t *testing.T) {
	t.Parallel()
	cfg := plainDefaults()
	cfg.UseSSL = true
	cfg.Password = "hunter2"
	got := logged(nil, &cfg, Block{"server", []slog.Attr{slog.String("version", "1.2.3"), slog.Int("port", 6641)}},
		cfg.Postgres.Block(), cfg.Logging.Block(), cfg.Tenancy.Block())
	want := `level=INFO msg="config: server" target=boot version=1.2.3 port=6641
level=INFO msg="config: postgres" target=boot host=localhost port=5432 user=postgres password="<set:7 chars>" ` +
		`database=postgres use_ssl=true ssl_reject_unauthorized=true ssl_trust=webpki-roots ssl_verified=true
level=INFO msg="config: logging" target=boot level=info json=false
level=INFO msg="config: security" target=boot tenancy_header=false
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestEffectiveSettingsTellReadIgnoredAndUnknownApart(t *testing.T) {
	t.Parallel()
	cfg := plainDefaults()
	got := logged([]string{
		"PATH=/bin", "PORT=6641", "DB_POOL_SIZE=4", "PG_DB=queen", // read, or none of ours
		"JWT_ENABLED=true", "QUEEN_RAFT_ANYTHING=1", "NUM_WORKERS=8", "FILE_BUFFER_DIR=/spool", // known elsewhere
		"QUEEN_MAX_BODY_BYTE=1", "QUEEN_ZZZ=", // misspelt
		"QUEEN_SERVICE_HOST=10.0.0.1", "QUEEN_PORT=tcp://10.0.0.1:6632", "QUEEN_PORT_6632_TCP_ADDR=10.0.0.1", // Kubernetes
	}, &cfg)
	want := `level=INFO msg="config: ignored" target=boot names=FILE_BUFFER_DIR,JWT_ENABLED,NUM_WORKERS,QUEEN_RAFT_ANYTHING
level=WARN msg="config: unknown settings" target=boot names=QUEEN_MAX_BODY_BYTE,QUEEN_ZZZ
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestEffectiveSettingsWarnAboutRaisedNumbers(t *testing.T) {
	t.Parallel()
	cfg := plainDefaults()
	got := logged([]string{"DB_POOL_SIZE=-1", "QUEEN_STMT_TIMEOUT_MS=500"}, &cfg)
	want := `level=WARN msg="config: value raised to its floor" target=boot name=DB_POOL_SIZE given=-1 in_force=1
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestTrustNamesHowTheDatabaseIsAuthenticated(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		ssl, reject Bool
		ca          string
		want        string
		verified    bool
	}{
		{false, true, "", "plaintext", false},
		{false, false, "pem", "plaintext", false},
		{true, true, "", "webpki-roots", true},
		{true, false, "", "accept-any", false},
		{true, true, "pem", "supplied-ca", true},
		{true, false, "pem", "supplied-ca", true},
	} {
		got, verified := Postgres{UseSSL: tc.ssl, SSLRejectUnauthorized: tc.reject, SSLRootCert: tc.ca}.Trust()
		if got != tc.want || verified != tc.verified {
			t.Errorf("%+v gives %s, %v", tc, got, verified)
		}
	}
}

func TestKnownNamesAreSortedAndHoldWhatTheBlocksRead(t *testing.T) {
	t.Parallel()
	names := strings.Fields(knownNames)
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Error("names.txt is not sorted, or has a name twice")
	}
	cfg := plainDefaults()
	fields, err := fieldsOf(reflect.ValueOf(&cfg).Elem())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		for _, name := range f.names {
			if !isKnown(name) {
				t.Errorf("%s is missing: services without that block would call it unknown", name)
			}
		}
	}
}
