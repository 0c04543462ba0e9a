package config

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// guarded are settings with the blocks of this file's tests. Like the others that set variables, they do not run in
// parallel.
type guarded struct {
	Auth
	Encryption
}

const (
	key      = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	otherKey = "f00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
)

// loaded are the settings of an environment that holds nothing but env of what they read.
func loaded(t *testing.T, env map[string]string) (guarded, error) {
	t.Helper()
	s := guarded{Auth: NewAuth()}
	for name, value := range env {
		t.Setenv(name, value)
	}
	return s, Load(&s)
}

func TestAuthDefaults(t *testing.T) {
	s, err := loaded(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Auth{
		Algorithm: "HS256", ClockSkew: 30, SkipPaths: List{"/health", "/metrics/prometheus", "/metrics", "/"},
		RoleClaim: "role", RolesClaim: "roles", Admin: "admin", ReadWrite: "read-write", ReadOnly: "read-only", WriteOnly: "write-only",
	}
	if diff := cmp.Diff(guarded{Auth: want}, s); diff != "" {
		t.Error(diff)
	}
}

func TestAuthIsRead(t *testing.T) {
	s, err := loaded(t, map[string]string{
		"JWT_ENABLED": "ON", "JWT_SECRET": "s", "JWT_ISSUER": "i", "JWT_AUDIENCE": "a", "JWT_CLOCK_SKEW": "-5", "JWT_SKIP_PATHS": "",
		"JWT_ROLES_CLAIM": "https://x/role", "JWT_ROLES_ARRAY_CLAIM": "groups", "JWT_ROLE_ADMIN": "A", "JWT_ROLE_READ_WRITE": "RW",
		"JWT_ROLE_READ_ONLY": "RO", "JWT_ROLE_WRITE_ONLY": "WO",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Auth{
		Enabled: true, Algorithm: "HS256", Secret: "s", Issuer: "i", Audience: "a", RoleClaim: "https://x/role", RolesClaim: "groups",
		Admin: "A", ReadWrite: "RW", ReadOnly: "RO", WriteOnly: "WO",
	}
	if diff := cmp.Diff(want, s.Auth); diff != "" {
		t.Error(diff)
	}
	var line strings.Builder
	for _, attr := range s.Auth.Block().Attrs {
		line.WriteString(attr.String() + " ")
	}
	if !strings.Contains(line.String(), "secret=<set:1 chars> ") {
		t.Error(line.String())
	}
}

func TestAuthAndEncryptionRefuseWhatCannotWork(t *testing.T) {
	for name, test := range map[string]struct {
		env  map[string]string
		want string
	}{
		"NotABoolean": {
			map[string]string{"JWT_ENABLED": "maybe"},
			`JWT_ENABLED="maybe" is not a boolean (expected true/false, 1/0, yes/no, on/off)`,
		},
		"NoSecret": {map[string]string{"JWT_ENABLED": "1"}, `JWT_ENABLED="true" needs JWT_SECRET, the key that HS256 tokens are signed with`},
		"NotInThisBuild": {
			map[string]string{"JWT_ENABLED": "1", "JWT_SECRET": "s", "JWT_ALGORITHM": "RS256"},
			`JWT_ALGORITHM="RS256": this build verifies HS256 only`,
		},
		"Auto": {
			map[string]string{"JWT_ENABLED": "1", "JWT_SECRET": "s", "JWT_ALGORITHM": "auto"},
			`JWT_ALGORITHM="auto": this build verifies HS256 only`,
		},
		"NoSuchAlgorithm": {
			map[string]string{"JWT_ENABLED": "1", "JWT_SECRET": "s", "JWT_ALGORITHM": "hs256"},
			`JWT_ALGORITHM="hs256" is none of HS256, HS384, HS512, RS256, RS384, RS512, EdDSA, auto`,
		},
		"NoAlgorithm": {
			map[string]string{"JWT_ENABLED": "1", "JWT_SECRET": "s", "JWT_ALGORITHM": ""},
			`JWT_ALGORITHM="" is none of HS256, HS384, HS512, RS256, RS384, RS512, EdDSA, auto`,
		},
		"ShortKey":      {map[string]string{"QUEEN_ENCRYPTION_KEY": key[1:]}, "QUEEN_ENCRYPTION_KEY has 63 characters instead of 64 hexadecimal digits"},
		"NotHex":        {map[string]string{"QUEEN_ENCRYPTION_KEY": "topsecret" + key[9:]}, "QUEEN_ENCRYPTION_KEY is not hexadecimal"},
		"OnlyLineBreak": {map[string]string{"QUEEN_ENCRYPTION_KEY": "\n"}, "QUEEN_ENCRYPTION_KEY is nothing but a line break"},
		"PreviousKey": {
			map[string]string{"QUEEN_ENCRYPTION_KEY": key, "QUEEN_ENCRYPTION_KEY_PREVIOUS": otherKey + ",topsecret"},
			"QUEEN_ENCRYPTION_KEY_PREVIOUS: an entry has 9 characters instead of 64 hexadecimal digits",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := loaded(t, test.env); err == nil || err.Error() != test.want {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
}

func TestAuthThatIsOffIsNotChecked(t *testing.T) {
	if _, err := loaded(t, map[string]string{"JWT_ALGORITHM": "none"}); err != nil {
		t.Error(err)
	}
}

func TestEncryptionKeys(t *testing.T) {
	for name, test := range map[string]struct {
		env     map[string]string
		canSeal bool
		none    bool
		log     []string
	}{
		"None":      {none: true},
		"Key":       {env: map[string]string{"QUEEN_ENCRYPTION_KEY": key}, canSeal: true, log: []string{"encryption service initialized (AES-256-GCM)", "630dcd29"}},
		"LineBreak": {env: map[string]string{"QUEEN_ENCRYPTION_KEY": key + "\r\n"}, canSeal: true, log: []string{"line break", "initialized"}},
		"Both":      {env: map[string]string{"QUEEN_ENCRYPTION_KEY": key, "QUEEN_ENCRYPTION_KEY_PREVIOUS": " " + otherKey + " ,,"}, canSeal: true, log: []string{"initialized"}},
		"Previous":  {env: map[string]string{"QUEEN_ENCRYPTION_KEY_PREVIOUS": otherKey}, log: []string{"nothing can be sealed"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := loaded(t, test.env)
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			keys, err := s.Keys(slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil || (keys == nil) != test.none || keys.CanSeal() != test.canSeal {
				t.Errorf("%v, none %v, can seal %v", err, keys == nil, keys.CanSeal())
			}
			for _, want := range test.log {
				if !strings.Contains(log.String(), want) {
					t.Errorf("no %q in:\n%s", want, log.String())
				}
			}
			if strings.Contains(log.String(), key) || len(test.log) == 0 && log.Len() > 0 {
				t.Errorf("logged:\n%s", log.String())
			}
		})
	}
}

func TestEncryptionIsMaskedInTheSecurityLine(t *testing.T) {
	t.Parallel()
	block := Encryption{Key: key, Previous: otherKey}.In(Tenancy{}.Block())
	var got []string
	for _, attr := range block.Attrs {
		got = append(got, attr.String())
	}
	want := []string{"tenancy_header=false", "encryption_key=<set:64 chars>", "encryption_key_previous=<set:64 chars>"}
	if diff := cmp.Diff(want, got); diff != "" || block.Name != "security" {
		t.Errorf("%s: %s", block.Name, diff)
	}
}
