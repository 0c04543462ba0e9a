package seal

import (
	"bytes"
	"strings"
	"testing"
)

func TestBytesOpenWithTheirKeyAndContextOnly(t *testing.T) {
	t.Parallel()
	old, err := NewKeys(strings.Repeat("a1", 32))
	if err != nil {
		t.Fatal(err)
	}
	rotated, err := NewKeys(strings.Repeat("b2", 32), strings.Repeat("a1", 32))
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{{}, {0}, []byte("not JSON \x00\xff")} {
		sealed := old.SealBytes(data, []byte("here"))
		if bytes.Contains(sealed, []byte("not JSON")) || bytes.Equal(sealed, old.SealBytes(data, []byte("here"))) {
			t.Errorf("%q is readable, or sealed the same twice", data)
		}
		for _, keys := range []*Keys{old, rotated} {
			if got, ok := keys.OpenBytes(sealed, []byte("here")); !ok || !bytes.Equal(got, data) {
				t.Errorf("%q: %q %v", data, got, ok)
			}
		}
		if _, ok := old.OpenBytes(sealed, []byte("there")); ok {
			t.Error("opened in another context")
		}
		for i := range sealed {
			damaged := bytes.Clone(sealed)
			damaged[i] ^= 1
			if _, ok := old.OpenBytes(damaged, []byte("here")); ok {
				t.Errorf("opened with byte %d changed", i)
			}
		}
		if _, ok := (*Keys)(nil).OpenBytes(sealed, nil); ok {
			t.Error("opened without a key")
		}
		if _, ok := old.OpenBytes(sealed[:nonceSize], nil); ok {
			t.Error("opened what is no sealed text")
		}
	}
}
