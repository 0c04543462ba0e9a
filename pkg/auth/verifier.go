package auth

import (
	"log/slog"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"queen.internal/pkg/config"
	"queen.internal/pkg/logging"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/route"
)

// Verifier checks callers by one set of settings. A nil *Verifier lets everybody do everything.
type Verifier struct {
	settings config.Auth
	secret   []byte
	skew     float64 // s
	parser   *jwt.Parser
	now      func() time.Time
}

// Identity is who calls, as far as a verified token says.
type Identity struct {
	Subject string // the claim sub; empty: none
}

// FromSettings returns the Verifier of settings that were loaded, nil when authentication is off, and says so.
func FromSettings(s config.Auth, logger *slog.Logger) *Verifier {
	if !bool(s.Enabled) {
		logging.For(logger, "auth").Info("authentication is off: API and dashboard are open to everybody who reaches this port")
		return nil
	}
	return newVerifier(s, time.Now)
}

func newVerifier(s config.Auth, now func() time.Time) *Verifier {
	return &Verifier{
		settings: s, secret: []byte(s.Secret.Reveal()), skew: float64(s.ClockSkew), now: now,
		// Claims are checked here in an order of their own, with an answer for each; see claims.go.
		parser: jwt.NewParser(jwt.WithValidMethods([]string{algorithm}), jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation()),
	}
}

// Check lets a request pass, or says why not: with kind Unauthorized when the token is to blame, Forbidden when its roles
// do not reach to level, Internal when the settings are. authorization is the header, path the path as it stood in the
// request line. Whoever may pass without a token has no identity, whatever they sent.
func (v *Verifier) Check(authorization, path string, level route.Level) (Identity, error) {
	if v == nil || level == route.Public || v.skips(path) {
		return Identity{}, nil
	}
	raw := bearer(authorization)
	if raw == "" {
		return Identity{}, unauthorized("Authentication required", nil)
	}
	claims, err := v.verify(raw)
	if err != nil {
		return Identity{}, err
	}
	if !v.roles(claims).reach(level) {
		return Identity{}, &queue.Error{Kind: queue.KindForbidden, Message: "Insufficient permissions"}
	}
	subject, _ := claims["sub"].(string)
	return Identity{Subject: subject}, nil
}

// skips says whether the settings open path to everybody.
func (v *Verifier) skips(path string) bool {
	for _, open := range v.settings.SkipPaths {
		if path == open || len(open) > 1 && strings.HasSuffix(open, "/") && strings.HasPrefix(path, open) {
			return true
		}
	}
	return false
}

// bearer is the token in a header: with the scheme in any case, or bare.
func bearer(authorization string) string {
	const scheme = "bearer "
	authorization = strings.TrimSpace(authorization)
	if len(authorization) > len(scheme) && strings.EqualFold(authorization[:len(scheme)], scheme) {
		return strings.TrimSpace(authorization[len(scheme):])
	}
	return authorization
}

func unauthorized(message string, cause error) error {
	return &queue.Error{Kind: queue.KindUnauthorized, Message: message, Err: cause}
}
