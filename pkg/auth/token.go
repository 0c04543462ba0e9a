package auth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"queen.internal/pkg/queue"
)

// algorithm is the only one that is verified.
const algorithm = "HS256"

// verify returns the claims of a token that holds. What is wrong is told by the first of these that fails: header,
// algorithm, key, signature, claims.
func (v *Verifier) verify(raw string) (jwt.MapClaims, error) {
	name, err := algorithmOf(raw)
	if err != nil {
		return nil, unauthorized("Bad token header", err)
	}
	if name != algorithm {
		return nil, unauthorized("Unsupported token algorithm", fmt.Errorf("token with algorithm %.20q", name))
	}
	if len(v.secret) == 0 {
		// Anybody can sign with an empty key. The settings are refused without one; this does not rely on it.
		return nil, &queue.Error{Kind: queue.KindInternal, Message: "HS secret not configured"}
	}
	claims := jwt.MapClaims{}
	// Claims that are no object count as a bad signature too: nobody signs those.
	if _, err := v.parser.ParseWithClaims(raw, claims, func(*jwt.Token) (any, error) { return v.secret, nil }); err != nil {
		return nil, unauthorized("Invalid token signature", err)
	}
	return claims, v.check(claims)
}

var (
	errParts    = errors.New("token is not three parts")
	errNoName   = errors.New("token header names no algorithm")
	errCritical = errors.New("token header demands extensions")
)

// algorithmOf reads the header, which nobody has verified yet.
func algorithmOf(raw string) (string, error) {
	if strings.Count(raw, ".") != 2 {
		return "", errParts
	}
	part, _, _ := strings.Cut(raw, ".")
	text, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return "", fmt.Errorf("decode the token's header: %w", err)
	}
	// A map, because a struct's fields would match in any case.
	var header map[string]any
	if err := json.Unmarshal(text, &header); err != nil {
		return "", fmt.Errorf("decode the token's header: %w", err)
	}
	if _, demands := header["crit"]; demands {
		return "", errCritical // whoever does not know an extension listed there must refuse
	}
	name, ok := header["alg"].(string)
	if !ok {
		return "", errNoName
	}
	return name, nil
}
