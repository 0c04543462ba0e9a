package config

import (
	"fmt"
	"log/slog"
	"slices"
)

// Auth is who may call a service: bearers of tokens that verify, or anybody.
type Auth struct {
	Enabled    Bool   `envconfig:"JWT_ENABLED"`
	Algorithm  string `envconfig:"JWT_ALGORITHM"`            // HS256; the others of the list end the boot
	Secret     Secret `envconfig:"JWT_SECRET"`               // the HMAC key, as it is
	Issuer     string `envconfig:"JWT_ISSUER"`               // what iss must be; empty: anything
	Audience   string `envconfig:"JWT_AUDIENCE"`             // what aud must hold; empty: anything
	ClockSkew  Int    `envconfig:"JWT_CLOCK_SKEW" floor:"0"` // s of slack on exp, nbf and iat
	SkipPaths  List   `envconfig:"JWT_SKIP_PATHS"`           // open to anybody; one that ends in / is a prefix
	RoleClaim  string `envconfig:"JWT_ROLES_CLAIM"`          // top-level claim that is one role
	RolesClaim string `envconfig:"JWT_ROLES_ARRAY_CLAIM"`    // top-level claim that is an array of roles
	Admin      string `envconfig:"JWT_ROLE_ADMIN"`           // what this role is called in tokens
	ReadWrite  string `envconfig:"JWT_ROLE_READ_WRITE"`
	ReadOnly   string `envconfig:"JWT_ROLE_READ_ONLY"`
	WriteOnly  string `envconfig:"JWT_ROLE_WRITE_ONLY"`
}

// NewAuth is the default: everything is open.
func NewAuth() Auth {
	return Auth{
		Algorithm: "HS256", ClockSkew: 30, SkipPaths: List{"/health", "/metrics/prometheus", "/metrics", "/"},
		RoleClaim: "role", RolesClaim: "roles", Admin: "admin", ReadWrite: "read-write", ReadOnly: "read-only", WriteOnly: "write-only",
	}
}

// algorithms are the values of JWT_ALGORITHM that mean something, not all of them to this build.
var algorithms = []string{"auto", "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "EdDSA"}

// Validate refuses settings under which no token could be verified.
func (a Auth) Validate() error {
	switch {
	case !bool(a.Enabled):
		return nil
	case !slices.Contains(algorithms, a.Algorithm):
		return fmt.Errorf("JWT_ALGORITHM=%s is none of HS256, HS384, HS512, RS256, RS384, RS512, EdDSA, auto", quote(a.Algorithm))
	case a.Algorithm != "HS256":
		return fmt.Errorf("JWT_ALGORITHM=%s: this build verifies HS256 only", quote(a.Algorithm))
	case a.Secret == "":
		return fmt.Errorf("JWT_ENABLED=%s needs JWT_SECRET, the key that HS256 tokens are signed with", quote("true"))
	}
	return nil
}

// Block is the auth line of the effective settings.
func (a Auth) Block() Block {
	return Block{"auth", []slog.Attr{
		slog.Bool("enabled", bool(a.Enabled)), slog.String("algorithm", a.Algorithm), slog.Any("secret", a.Secret),
		slog.String("issuer", a.Issuer), slog.String("audience", a.Audience), slog.Int64("clock_skew_s", int64(a.ClockSkew)),
		slog.Any("skip_paths", a.SkipPaths), slog.String("role_claim", a.RoleClaim), slog.String("roles_claim", a.RolesClaim),
	}}
}
