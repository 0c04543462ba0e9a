package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// keyDigits is the length of a key as text: 32 bytes in hexadecimal.
const keyDigits = 64

// Keys seal with one key and open with that one and with others. They are immutable and safe for concurrent use. A nil
// *Keys has no key.
type Keys struct {
	current     cipher.AEAD   // nil: nothing can be sealed
	all         []cipher.AEAD // the current one first
	fingerprint string
}

// ErrNotHex is the fault of a key that has the right length.
var ErrNotHex = errors.New("is not hexadecimal")

// NewKeys makes Keys of hexadecimal texts. current may be empty: such Keys only open. previous are keys that nothing is
// sealed with any more. No error tells anything of a key but its length.
func NewKeys(current string, previous ...string) (*Keys, error) {
	k := &Keys{}
	if current != "" {
		aead, fingerprint, err := parseKey(current)
		if err != nil {
			return nil, err
		}
		k.current, k.fingerprint = aead, fingerprint
		k.all = append(k.all, aead)
	}
	for _, text := range previous {
		aead, _, err := parseKey(text)
		if err != nil {
			return nil, err
		}
		k.all = append(k.all, aead)
	}
	return k, nil
}

func parseKey(text string) (cipher.AEAD, string, error) {
	if len(text) != keyDigits {
		return nil, "", fmt.Errorf("has %d characters instead of %d hexadecimal digits", len(text), keyDigits)
	}
	key, err := hex.DecodeString(text)
	if err != nil {
		return nil, "", ErrNotHex // the decoder's own error quotes what it met
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, "", fmt.Errorf("make the cipher: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, "", fmt.Errorf("make the cipher: %w", err)
	}
	digest := sha256.Sum256(key)
	return aead, hex.EncodeToString(digest[:4]), nil
}

// CanSeal says whether there is a key to seal with.
func (k *Keys) CanSeal() bool { return k != nil && k.current != nil }

// Fingerprint is what processes compare to see that they seal with the same key: 8 hexadecimal digits of its SHA-256.
// It is empty when nothing can be sealed.
func (k *Keys) Fingerprint() string {
	if k == nil {
		return ""
	}
	return k.fingerprint
}
