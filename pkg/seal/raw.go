package seal

import "crypto/rand"

// SealBytes encrypts data, of any form, under a fresh nonce and returns nonce, cipher text and tag. context is not stored
// and has to be the same to open them. It needs a key, see CanSeal.
func (k *Keys) SealBytes(data, context []byte) []byte {
	out := make([]byte, nonceSize, nonceSize+len(data)+tagSize)
	rand.Read(out) // never fails
	return k.current.Seal(out, out, data, context)
}

// OpenBytes returns what SealBytes was given, false when no key and context open it.
func (k *Keys) OpenBytes(sealed, context []byte) ([]byte, bool) {
	if k == nil || len(sealed) < nonceSize+tagSize {
		return nil, false
	}
	for _, aead := range k.all {
		if data, err := aead.Open(nil, sealed[:nonceSize], sealed[nonceSize:], context); err == nil {
			return data, true
		}
	}
	return nil, false
}
