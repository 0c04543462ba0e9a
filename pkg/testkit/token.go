package testkit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"testing"
)

// Token is a bearer token with these claims, signed by HS256 with the secret's bytes.
func Token(t testing.TB, secret string, claims map[string]any) string {
	t.Helper()
	body, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode(body)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return text + "." + encode(mac.Sum(nil))
}

// RoleToken is a Token of somebody with that role and no expiry. An empty subject is left out.
func RoleToken(t testing.TB, secret, role, subject string) string {
	t.Helper()
	claims := map[string]any{"role": role}
	if subject != "" {
		claims["sub"] = subject
	}
	return Token(t, secret, claims)
}
