package auth

import (
	"slices"

	"github.com/golang-jwt/jwt/v5"

	"queen.internal/pkg/route"
)

// check compares the claims with clock and settings: exp, nbf, iat, iss, aud, and the first that does not hold decides. A
// token without exp never expires. A claim of the wrong type does not hold.
func (v *Verifier) check(claims jwt.MapClaims) error {
	now := float64(v.now().UnixMilli()) / 1000
	for _, c := range []struct {
		claim, refusal string
		holds          func(at float64) bool
	}{
		{"exp", "Token has expired", func(at float64) bool { return now < at+v.skew }},
		{"nbf", "Token not yet valid", func(at float64) bool { return now >= at-v.skew }},
		{"iat", "Token issued in the future", func(at float64) bool { return now >= at-v.skew }},
	} {
		value := claims[c.claim]
		if value == nil {
			continue
		}
		if at, ok := value.(float64); !ok || !c.holds(at) {
			return unauthorized(c.refusal, nil)
		}
	}
	if want := v.settings.Issuer; want != "" && claims["iss"] != any(want) {
		return unauthorized("Invalid token issuer", nil)
	}
	if want := v.settings.Audience; want != "" && !slices.Contains(texts(claims["aud"]), want) {
		return unauthorized("Invalid token audience", nil)
	}
	return nil
}

// texts is a claim that is one string, or an array, of which the strings count.
func texts(claim any) []string {
	var found []string
	switch claim := claim.(type) {
	case string:
		found = append(found, claim)
	case []any:
		for _, entry := range claim {
			if text, ok := entry.(string); ok {
				found = append(found, text)
			}
		}
	}
	return found
}

// roles is a set.
type roles uint8

// The roles. They are no ladder: read-only and write-only do not include each other.
const (
	readOnly roles = 1 << iota
	writeOnly
	readWrite
	admin
)

// reaching are the roles that reach to each level; one of them is enough.
var reaching = map[route.Level]roles{
	route.Public:    readOnly | writeOnly | readWrite | admin,
	route.ReadOnly:  readOnly | readWrite | admin,
	route.WriteOnly: writeOnly | readWrite | admin,
	route.ReadWrite: readWrite | admin,
	route.Admin:     admin,
}

func (r roles) reach(level route.Level) bool { return r&reaching[level] != 0 }

// roles are those that the settings' two claims name. An array under the claim for one role does not count, nor does a
// string under the other.
func (v *Verifier) roles(claims jwt.MapClaims) roles {
	var named []string
	if one, ok := claims[v.settings.RoleClaim].(string); ok {
		named = append(named, one)
	}
	if many, ok := claims[v.settings.RolesClaim].([]any); ok {
		named = append(named, texts(many)...)
	}
	var found roles
	for _, name := range named {
		if name == "" {
			continue // a role whose name is set to nothing is given to nobody
		}
		for _, r := range []struct {
			name string
			role roles
		}{
			{v.settings.ReadOnly, readOnly}, {v.settings.WriteOnly, writeOnly}, {v.settings.ReadWrite, readWrite}, {v.settings.Admin, admin},
		} {
			if name == r.name {
				found |= r.role
			}
		}
	}
	return found
}
