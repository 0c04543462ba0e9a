package load

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Of a thousand messages so many are large, and one is of what parsers stumble over.
const (
	largeOfThousand = 10
	largeBytes      = 100 << 10
	plainBytes      = 200
)

// hostile is JSON that is easily altered on its way: a null character, numbers beyond any type, odd Unicode, keys twice.
const hostile = `{"h":"%s","a":"\u0000\ud83d\ude00\u2028 \u00e9é","b":123456789012345678901234567890.1e-400,"b":-0,  "c":[ ],"":{"\\":null}}`

// payload is what the message of a key carries, to the byte.
func payload(partition, key string) []byte {
	sum := sha256.Sum256([]byte(partition + "\x00" + key))
	hash := hex.EncodeToString(sum[:])
	lot, size := (int(sum[0])<<8|int(sum[1]))%1000, plainBytes
	switch {
	case lot == 0:
		return fmt.Appendf(nil, hostile, hash)
	case lot <= largeOfThousand:
		size = largeBytes
	}
	text := fmt.Sprintf(`{"p":%q,"k":%q,"h":"%s","f":"`, partition, key, hash)
	filler := strings.Repeat(hash, max(size-len(text)-2, 0)/len(hash)+1)
	return []byte(text + filler[:max(size-len(text)-2, 0)] + `"}`)
}
