package auth

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/config"
	"queen.internal/pkg/queue"
	"queen.internal/pkg/route"
)

const secret = "a secret of the tests"

// noon is the present of the tests.
var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// verifier is one at noon whose settings change may adjust.
func verifier(change func(*config.Auth)) *Verifier {
	s := config.NewAuth()
	s.Enabled, s.Secret = true, secret
	if change != nil {
		change(&s)
	}
	return newVerifier(s, func() time.Time { return noon })
}

func sign(t *testing.T, method jwt.SigningMethod, key any, claims jwt.MapClaims) string {
	t.Helper()
	token, err := jwt.NewWithClaims(method, claims).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func token(t *testing.T, claims jwt.MapClaims) string {
	t.Helper()
	return sign(t, jwt.SigningMethodHS256, []byte(secret), claims)
}

// handmade is a token of these parts, as they are, with a correct signature.
func handmade(header, claims string) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func with(more jwt.MapClaims) jwt.MapClaims {
	claims := jwt.MapClaims{"role": "admin", "sub": "svc"}
	maps.Copy(claims, more)
	return claims
}

func TestCheck_TellsWhatIsWrongWithAToken(t *testing.T) {
	t.Parallel()
	at := func(seconds float64) float64 { return float64(noon.Unix()) + seconds }
	good := token(t, with(nil))
	header, rest, _ := strings.Cut(good, ".")
	strictly := func(s *config.Auth) { s.Issuer, s.Audience = "queen", "cell" }
	for name, test := range map[string]struct {
		authorization string
		change        func(*config.Auth)
		want          string // empty: it passes
	}{
		"None":              {"", nil, "Authentication required"},
		"Blank":             {"   ", nil, "Authentication required"},
		"OnlyTheScheme":     {"Bearer ", nil, "Bad token header"},
		"Bearer":            {"Bearer " + good, nil, ""},
		"AnyCase":           {"bEARER  " + good + " ", nil, ""},
		"Bare":              {good, nil, ""},
		"OtherScheme":       {"Basic " + good, nil, "Bad token header"},
		"NoToken":           {"Bearer x", nil, "Bad token header"},
		"FourParts":         {good + ".x", nil, "Bad token header"},
		"HeaderNotBase64":   {"Bearer !" + good, nil, "Bad token header"},
		"HeaderNotJSON":     {handmade("{", `{"role":"admin"}`), nil, "Bad token header"},
		"HeaderNoAlgorithm": {handmade(`{"ALG":"HS256"}`, `{"role":"admin"}`), nil, "Bad token header"},
		"AlgorithmNoText":   {handmade(`{"alg":1}`, `{"role":"admin"}`), nil, "Bad token header"},
		"CriticalExtension": {handmade(`{"alg":"HS256","crit":["b64"],"b64":false}`, `{"role":"admin"}`), nil, "Bad token header"},
		"NoType":            {handmade(`{"alg":"HS256"}`, `{"role":"admin","sub":"svc"}`), nil, ""},

		"AlgorithmNone":      {sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, with(nil)), nil, "Unsupported token algorithm"},
		"AlgorithmLowerCase": {handmade(`{"alg":"hs256"}`, `{"role":"admin"}`), nil, "Unsupported token algorithm"},
		"HS512":              {sign(t, jwt.SigningMethodHS512, []byte(secret), with(nil)), nil, "Unsupported token algorithm"},
		"RS256WithTheSecret": {handmade(`{"alg":"RS256"}`, `{"role":"admin"}`), nil, "Unsupported token algorithm"},
		"AlgorithmTwice":     {handmade(`{"alg":"HS256","alg":"none"}`, `{"role":"admin"}`), nil, "Unsupported token algorithm"},
		"AlgorithmFirst":     {sign(t, jwt.SigningMethodHS384, []byte("other"), with(jwt.MapClaims{"exp": at(-99)})), nil, "Unsupported token algorithm"},
		"NoSecret": {
			sign(t, jwt.SigningMethodHS256, []byte{}, with(nil)), func(s *config.Auth) { s.Secret = "" }, "HS secret not configured",
		},

		"OtherKey":          {sign(t, jwt.SigningMethodHS256, []byte("other"), with(nil)), nil, "Invalid token signature"},
		"NoSignature":       {good[:strings.LastIndex(good, ".")+1], nil, "Invalid token signature"},
		"ChangedClaims":     {header + ".e" + rest[1:][:5] + "A" + rest[7:], nil, "Invalid token signature"},
		"ClaimsNoObject":    {handmade(`{"alg":"HS256"}`, `[1]`), nil, "Invalid token signature"},
		"SignatureBeforeXP": {sign(t, jwt.SigningMethodHS256, []byte("other"), with(jwt.MapClaims{"exp": at(-99)})), nil, "Invalid token signature"},

		"Expired":              {token(t, with(jwt.MapClaims{"exp": at(-30)})), nil, "Token has expired"},
		"ExpiredWithinSkew":    {token(t, with(jwt.MapClaims{"exp": at(-29)})), nil, ""},
		"ExpiredNoSkew":        {token(t, with(jwt.MapClaims{"exp": at(-1)})), func(s *config.Auth) { s.ClockSkew = 0 }, "Token has expired"},
		"ExpiresInTheFuture":   {token(t, with(jwt.MapClaims{"exp": at(3600)})), nil, ""},
		"ExpiredLongAgo":       {token(t, with(jwt.MapClaims{"exp": 0})), nil, "Token has expired"},
		"ExpiresFarAway":       {token(t, with(jwt.MapClaims{"exp": 1e300})), nil, ""},
		"ExpiryNull":           {token(t, with(jwt.MapClaims{"exp": nil})), nil, ""},
		"ExpiryText":           {token(t, with(jwt.MapClaims{"exp": "2099-01-01"})), nil, "Token has expired"},
		"NotYet":               {token(t, with(jwt.MapClaims{"nbf": at(31)})), nil, "Token not yet valid"},
		"NotYetWithinSkew":     {token(t, with(jwt.MapClaims{"nbf": at(30)})), nil, ""},
		"NeverValid":           {token(t, with(jwt.MapClaims{"nbf": 1e300})), nil, "Token not yet valid"},
		"IssuedLater":          {token(t, with(jwt.MapClaims{"iat": at(31)})), nil, "Token issued in the future"},
		"IssuedWithinSkew":     {token(t, with(jwt.MapClaims{"iat": at(30)})), nil, ""},
		"ExpiredBeforeTheRest": {token(t, with(jwt.MapClaims{"exp": at(-99), "nbf": at(99), "iat": at(99)})), strictly, "Token has expired"},
		"NotYetBeforeIssued":   {token(t, with(jwt.MapClaims{"nbf": at(99), "iat": at(99)})), strictly, "Token not yet valid"},
		"IssuedBeforeIssuer":   {token(t, with(jwt.MapClaims{"iat": at(99)})), strictly, "Token issued in the future"},

		"NoIssuer":            {token(t, with(jwt.MapClaims{"aud": "other"})), strictly, "Invalid token issuer"},
		"OtherIssuer":         {token(t, with(jwt.MapClaims{"iss": "Queen", "aud": "cell"})), strictly, "Invalid token issuer"},
		"IssuerNoText":        {token(t, with(jwt.MapClaims{"iss": []string{"queen"}, "aud": "cell"})), strictly, "Invalid token issuer"},
		"NoAudience":          {token(t, with(jwt.MapClaims{"iss": "queen"})), strictly, "Invalid token audience"},
		"OtherAudience":       {token(t, with(jwt.MapClaims{"iss": "queen", "aud": []string{"a", "b"}})), strictly, "Invalid token audience"},
		"AudienceText":        {token(t, with(jwt.MapClaims{"iss": "queen", "aud": "cell"})), strictly, ""},
		"AudienceAmongOthers": {token(t, with(jwt.MapClaims{"iss": "queen", "aud": []any{1, "a", "cell"}})), strictly, ""},
		"UnaskedClaims":       {token(t, with(jwt.MapClaims{"iss": "x", "aud": "y"})), nil, ""},

		"NoRole": {token(t, jwt.MapClaims{"sub": "svc"}), nil, "Insufficient permissions"},
	} {
		got, err := verifier(test.change).Check(test.authorization, "/api/v1/push", route.ReadWrite)
		if test.want == "" {
			if err != nil || got.Subject != "svc" {
				t.Errorf("%s: %v, %+v", name, err, got)
			}
			continue
		}
		kind := queue.KindUnauthorized
		switch test.want {
		case "HS secret not configured":
			kind = queue.KindInternal
		case "Insufficient permissions":
			kind = queue.KindForbidden
		}
		var known *queue.Error
		if !errors.As(err, &known) || known.Message != test.want || known.Kind != kind || got != (Identity{}) {
			t.Errorf("%s: %v, %+v; want %s", name, err, got, test.want)
		}
	}
}

func TestCheck_LevelsAreASet(t *testing.T) {
	t.Parallel()
	levels := []route.Level{route.Public, route.ReadOnly, route.WriteOnly, route.ReadWrite, route.Admin}
	renamed := func(s *config.Auth) {
		s.RoleClaim, s.RolesClaim, s.Admin, s.ReadWrite, s.ReadOnly, s.WriteOnly = "https://x/role", "groups", "root", "rw", "ro", ""
	}
	for name, test := range map[string]struct {
		claims jwt.MapClaims
		change func(*config.Auth)
		want   []route.Level
	}{
		"ReadOnly":         {jwt.MapClaims{"role": "read-only"}, nil, []route.Level{route.Public, route.ReadOnly}},
		"WriteOnly":        {jwt.MapClaims{"role": "write-only"}, nil, []route.Level{route.Public, route.WriteOnly}},
		"ReadWrite":        {jwt.MapClaims{"role": "read-write"}, nil, levels[:4]},
		"Admin":            {jwt.MapClaims{"role": "admin"}, nil, levels},
		"None":             {jwt.MapClaims{}, nil, levels[:1]},
		"Unknown":          {jwt.MapClaims{"role": "Admin"}, nil, levels[:1]},
		"Array":            {jwt.MapClaims{"roles": []any{"else", 1, "read-only"}}, nil, []route.Level{route.Public, route.ReadOnly}},
		"Several":          {jwt.MapClaims{"roles": []any{"read-only", "write-only"}}, nil, levels[:3]},
		"BothClaims":       {jwt.MapClaims{"role": "write-only", "roles": []any{"read-only"}}, nil, levels[:3]},
		"ArrayForOne":      {jwt.MapClaims{"role": []any{"admin"}}, nil, levels[:1]},
		"OneForArray":      {jwt.MapClaims{"roles": "admin"}, nil, levels[:1]},
		"Renamed":          {jwt.MapClaims{"https://x/role": "rw"}, renamed, levels[:4]},
		"RenamedArray":     {jwt.MapClaims{"groups": []any{"root"}}, renamed, levels},
		"OldNames":         {jwt.MapClaims{"role": "admin", "groups": []any{"admin"}}, renamed, levels[:1]},
		"NobodyHasNothing": {jwt.MapClaims{"https://x/role": "", "groups": []any{""}}, renamed, levels[:1]},
	} {
		v, authorization := verifier(test.change), token(t, test.claims)
		var got []route.Level
		for _, level := range levels {
			if _, err := v.Check(authorization, "/x", level); err == nil {
				got = append(got, level)
			} else if queue.KindOf(err) != queue.KindForbidden {
				t.Errorf("%s, %s: %v", name, level, err)
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestCheck_SkipsPathsExactlyOrByPrefix(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/health": true, "/metrics": true, "/": true, "/healthy": false, "/health/": false, "/open/": true, "/open/a/b": true,
		"/open": false, "/opener": false, "": false, "/api/v1/push": false,
	} {
		v := verifier(func(s *config.Auth) { s.SkipPaths = append(s.SkipPaths, "/open/") })
		got, err := v.Check(token(t, with(nil))[1:], path, route.Admin)
		if (err == nil) != want || got != (Identity{}) {
			t.Errorf("%q: %v, %+v", path, err, got)
		}
	}
	if _, err := verifier(func(s *config.Auth) { s.SkipPaths = nil }).Check("", "/", route.ReadOnly); err == nil {
		t.Error("a cleared list skips")
	}
}

func TestCheck_PublicNeedsNoToken(t *testing.T) {
	t.Parallel()
	if got, err := verifier(nil).Check("Bearer nonsense", "/livez", route.Public); err != nil || got != (Identity{}) {
		t.Errorf("%v, %+v", err, got)
	}
}

func TestCheck_SubjectThatIsNoTextIsNone(t *testing.T) {
	t.Parallel()
	for name, subject := range map[string]any{"Number": 7, "Null": nil, "Empty": "", "Object": map[string]any{"a": 1}} {
		got, err := verifier(nil).Check(token(t, with(jwt.MapClaims{"sub": subject})), "/x", route.Admin)
		if err != nil || got.Subject != "" {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
}

func TestFromSettings_OffLetsEverybodyPassAndSaysSo(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	v := FromSettings(config.NewAuth(), slog.New(slog.NewTextHandler(&log, nil)))
	if got, err := v.Check("Bearer nonsense", "/internal/x", route.Admin); err != nil || got != (Identity{}) {
		t.Errorf("%v, %+v", err, got)
	}
	if !strings.Contains(log.String(), "API and dashboard are open") {
		t.Error(log.String())
	}
	s := config.NewAuth()
	s.Enabled, s.Secret = true, secret
	log.Reset()
	if _, err := FromSettings(s, slog.New(slog.NewTextHandler(&log, nil))).Check("", "/x", route.ReadOnly); err == nil || log.Len() > 0 {
		t.Errorf("%v, log %q", err, log.String())
	}
}
