package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The keys of the tests: the bytes 0 to 31, and the same bytes backwards.
const (
	keyA = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	keyB = "1F1E1D1C1B1A191817161514131211100F0E0D0C0B0A09080706050403020100"
)

func keys(t testing.TB, current string, previous ...string) *Keys {
	t.Helper()
	k, err := NewKeys(current, previous...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// foreign is an envelope that another implementation of the same format made with keyA, and what it holds.
const (
	foreign = `{"encrypted":"PCC4Of/U7jn+Y62pck1aEA==","iv":"AAECAwQFBgcICQoLDA0ODw==","authTag":"VVvh/dUc8agk0YLFb6cb6g=="}`
	inside  = `{"n":1,"s":"ä"}`
)

func TestOpen_ReadsWhatOthersSealed(t *testing.T) {
	t.Parallel()
	for name, envelope := range map[string]string{
		"AsIs":         foreign,
		"OtherOrder":   `{"authTag":"VVvh/dUc8agk0YLFb6cb6g==","encrypted":"PCC4Of/U7jn+Y62pck1aEA==","iv":"AAECAwQFBgcICQoLDA0ODw=="}`,
		"Blanks":       " {\n\t\"encrypted\" : \"PCC4Of/U7jn+Y62pck1aEA==\" ,\r\n\"iv\":\"AAECAwQFBgcICQoLDA0ODw==\",\"authTag\":\"VVvh/dUc8agk0YLFb6cb6g==\" } ",
		"UnusedIVByte": strings.Replace(foreign, "DA0ODw==", "DA0OEA==", 1), // only the first 12 of 16 count
	} {
		if got, outcome := keys(t, keyA).Open([]byte(envelope)); string(got) != inside || outcome != Opened {
			t.Errorf("%s: %s, %d", name, got, outcome)
		}
	}
}

func TestSeal_WritesTheEnvelopeToTheLetter(t *testing.T) {
	t.Parallel()
	envelope := keys(t, keyA).Seal([]byte(inside))
	var text, iv, tag string
	if _, err := fmt.Sscanf(strings.NewReplacer(`{"encrypted":"`, "", `","iv":"`, " ", `","authTag":"`, " ", `"}`, "").Replace(string(envelope)),
		"%s %s %s", &text, &iv, &tag); err != nil {
		t.Fatalf("%s: %v", envelope, err)
	}
	if want := fmt.Sprintf(`{"encrypted":%q,"iv":%q,"authTag":%q}`, text, iv, tag); string(envelope) != want {
		t.Errorf("%s, want %s", envelope, want)
	}
	raw := func(text string) []byte {
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if len(raw(iv)) != 16 || len(raw(tag)) != 16 || len(raw(text)) != len(inside) {
		t.Errorf("sizes %d, %d and %d", len(raw(text)), len(raw(iv)), len(raw(tag)))
	}
	// Opened with nothing of this package.
	key := make([]byte, 32)
	for i := range key {
		key[i] = byte(i)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	got, err := gcm.Open(nil, raw(iv)[:12], append(raw(text), raw(tag)...), nil)
	if err != nil || string(got) != inside {
		t.Errorf("%s, %v", got, err)
	}
}

func TestSeal_NeverTheSameTwice(t *testing.T) {
	t.Parallel()
	k, seen := keys(t, keyA), map[string]bool{}
	for range 1000 {
		envelope := string(k.Seal([]byte("1")))
		if seen[envelope] {
			t.Fatal("two payloads have the same envelope")
		}
		seen[envelope] = true
	}
}

func TestOpen_LeavesEverythingElseAsItIs(t *testing.T) {
	t.Parallel()
	member := func(name, value string) string { return fmt.Sprintf("%q:%q", name, value) }
	iv, tag := member("iv", "AAECAwQFBgcICQoLDA0ODw=="), member("authTag", "VVvh/dUc8agk0YLFb6cb6g==")
	text := member("encrypted", "PCC4Of/U7jn+Y62pck1aEA==")
	for name, test := range map[string]struct {
		payload string
		want    Outcome
	}{
		"Empty":            {"", Plain},
		"Null":             {"null", Plain},
		"Number":           {"12345678901234567890.10", Plain},
		"LongString":       {`"` + strings.Repeat("x", 200) + `"`, Plain},
		"Array":            {"[" + foreign + "]", Plain},
		"TwoMembers":       {"{" + text + "," + iv + strings.Repeat(" ", 100) + "}", Plain},
		"FourMembers":      {"{" + text + "," + iv + "," + tag + "," + member("kid", "a") + "}", Plain},
		"MemberTwice":      {"{" + text + "," + iv + "," + iv + "}", Plain},
		"OtherName":        {"{" + text + "," + iv + "," + member("authtag", "VVvh/dUc8agk0YLFb6cb6g==") + "}", Plain},
		"NoString":         {"{" + text + "," + iv + `,"authTag":` + strings.Repeat("1", 30) + "}", Plain},
		"ShortTag":         {"{" + text + "," + iv + "," + member("authTag", "VVvh/dUc8agk0YLFb6cb") + strings.Repeat(" ", 20) + "}", Plain},
		"LongIV":           {"{" + text + "," + member("iv", "AAECAwQFBgcICQoLDA0ODxAR") + "," + tag + "}", Plain},
		"IVOf17Bytes":      {"{" + text + "," + member("iv", "AAECAwQFBgcICQoLDA0ODxA=") + "," + tag + "}", Plain},
		"NothingEncrypted": {"{" + member("encrypted", "") + "," + iv + "," + tag + "}        ", Plain},
		"NoPadding":        {"{" + member("encrypted", "PCC4Of/U7jn+Y62pck1aEA") + "," + iv + "," + tag + "}", Plain},
		"SloppyBase64":     {"{" + member("encrypted", "PCC4Of/U7jn+Y62pck1aEB==") + "," + iv + "," + tag + "}", Plain},
		"URLAlphabet":      {"{" + member("encrypted", "PCC4Of_U7jn-Y62pck1aEA==") + "," + iv + "," + tag + "}", Plain},
		"Escapes":          {strings.Replace(foreign, "/", `\/`, 1), Plain},
		"Trailing":         {foreign + "x", Plain},
		"Unfinished":       {foreign[:len(foreign)-1], Plain},
		"WrongTag":         {strings.Replace(foreign, "VVvh", "WVvh", 1), Unopened},
		"WrongText":        {strings.Replace(foreign, "PCC4", "QCC4", 1), Unopened},
		"WrongNonce":       {strings.Replace(foreign, "AAEC", "AQEC", 1), Unopened},
		"NoJSONInside":     {string(keys(t, keyA).Seal([]byte(`{"a":`))), Unopened},
		"WrongKey":         {string(keys(t, keyB).Seal([]byte(inside))), Unopened},
	} {
		got, outcome := keys(t, keyA).Open([]byte(test.payload))
		if string(got) != test.payload || outcome != test.want {
			t.Errorf("%s: outcome %d, want %d; %s", name, outcome, test.want, got)
		}
		if is := IsEnvelope([]byte(test.payload)); is != (test.want != Plain) {
			t.Errorf("%s: IsEnvelope is %v", name, is)
		}
	}
}

func TestOpen_OnceOnly(t *testing.T) {
	t.Parallel()
	k := keys(t, keyA)
	// A producer may push what looks sealed, even what is: it comes back as it was pushed.
	pushed := k.Seal([]byte(inside))
	if got, outcome := k.Open(k.Seal(pushed)); !bytes.Equal(got, pushed) || outcome != Opened {
		t.Errorf("%s, %d", got, outcome)
	}
}

func TestKeys_PreviousOnesOnlyOpen(t *testing.T) {
	t.Parallel()
	old := keys(t, keyA).Seal([]byte(inside))
	rotated := keys(t, keyB, keyA)
	if got, outcome := rotated.Open(old); string(got) != inside || outcome != Opened {
		t.Errorf("%s, %d", got, outcome)
	}
	if _, outcome := keys(t, keyA).Open(rotated.Seal([]byte("1"))); outcome != Unopened {
		t.Errorf("the previous key opens what was sealed after the rotation: %d", outcome)
	}
	retired := keys(t, "", keyB, keyA)
	if got, outcome := retired.Open(old); string(got) != inside || outcome != Opened || retired.CanSeal() || retired.Fingerprint() != "" {
		t.Errorf("%s, %d, can seal %v, fingerprint %q", got, outcome, retired.CanSeal(), retired.Fingerprint())
	}
}

func TestKeys_NoneAtAll(t *testing.T) {
	t.Parallel()
	var none *Keys
	if none.CanSeal() || none.Fingerprint() != "" {
		t.Error("no key can seal")
	}
	if got, outcome := none.Open([]byte(foreign)); string(got) != foreign || outcome != Unopened {
		t.Errorf("%s, %d", got, outcome)
	}
	if _, outcome := none.Open([]byte(inside)); outcome != Plain {
		t.Errorf("outcome %d", outcome)
	}
}

func TestNewKeys_RefusesWhatIsNoKeyWithoutShowingIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"Short":     {keyA[1:], "has 63 characters instead of 64 hexadecimal digits"},
		"Long":      {keyA + "0", "has 65 characters instead of 64 hexadecimal digits"},
		"LineBreak": {keyA + "\n", "has 65 characters instead of 64 hexadecimal digits"},
		"NotHex":    {"secret" + keyA[6:], "is not hexadecimal"},
		"Unicode":   {strings.Repeat("é", 32), "is not hexadecimal"},
	} {
		for position, make := range map[string]func() (*Keys, error){
			"current":  func() (*Keys, error) { return NewKeys(test.text) },
			"previous": func() (*Keys, error) { return NewKeys(keyB, keyA, test.text) },
		} {
			k, err := make()
			if k != nil || err == nil || err.Error() != test.want {
				t.Errorf("%s, %s: %v, want %s", name, position, err, test.want)
			}
		}
	}
	if _, err := NewKeys(keyA, ""); err == nil {
		t.Error("an empty previous key is taken")
	}
}

func TestFingerprint_IsTheSameForTheSameKey(t *testing.T) {
	t.Parallel()
	got := []string{keys(t, keyA).Fingerprint(), keys(t, strings.ToUpper(keyA), keyB).Fingerprint()}
	if diff := cmp.Diff([]string{"630dcd29", "630dcd29"}, got); diff != "" {
		t.Error(diff)
	}
	if keys(t, keyB).Fingerprint() == "630dcd29" {
		t.Error("two keys have one fingerprint")
	}
}

// TestRoundTrip seals any JSON and opens it with the right key among others, and never with another.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	a, b, both := keys(t, keyA), keys(t, keyB), keys(t, keyB, keyA)
	rapid.Check(t, func(t *rapid.T) {
		payload, err := json.Marshal(rapid.MapOf(rapid.String(), rapid.OneOf(rapid.String().AsAny(), rapid.Int64().AsAny())).Draw(t, "payload"))
		if err != nil {
			t.Fatal(err)
		}
		before := bytes.Clone(payload)
		envelope := a.Seal(payload)
		if !bytes.Equal(payload, before) || !IsEnvelope(envelope) || bytes.Contains(envelope, payload) && len(payload) > 2 {
			t.Fatalf("sealed %s as %s", before, envelope)
		}
		kept := bytes.Clone(envelope)
		for name, k := range map[string]*Keys{"its key": a, "a previous key": both} {
			if got, outcome := k.Open(envelope); !bytes.Equal(got, payload) || outcome != Opened {
				t.Fatalf("%s: %s, %d", name, got, outcome)
			}
		}
		if got, outcome := b.Open(envelope); !bytes.Equal(got, kept) || outcome != Unopened {
			t.Fatalf("another key: %s, %d", got, outcome)
		}
		if !bytes.Equal(envelope, kept) {
			t.Fatal("Open wrote to its argument")
		}
		at := rapid.IntRange(0, len(envelope)-1).Draw(t, "at")
		damaged := bytes.Clone(envelope)
		damaged[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "by"))
		if got, outcome := a.Open(damaged); outcome == Opened && !bytes.Equal(got, payload) {
			t.Fatalf("%s opens to %s", damaged, got)
		}
	})
}
