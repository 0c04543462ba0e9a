package mesh

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"

	"queen.internal/pkg/config"
)

// On an existing NATS others may have accounts as well. With a secret, messages there are sealed: who does not have it
// reads nothing and is believed nothing. Between our own nodes TLS does that.
//
// A sealed message is kindSealed's header, a counter, and the message under AES-256-GCM. Each boot has a key of its own,
// derived from the secret and the boot id, and counts its messages, so a nonce is never used twice. Messages of one boot
// arrive in order; a counter that does not rise is a message sent again by somebody else.

const kindSealed = 's'

// sealedHead is header and counter.
const sealedHead = 10 + 8

var (
	errForged   = errors.New("the message was not sealed with the secret")
	errReplayed = errors.New("the message was sent before")
)

// sealer seals what one boot says. It is the sender's alone.
type sealer struct {
	boot    uint64
	key     cipher.AEAD
	counter uint64
}

func newSealer(s *config.Mesh, boot uint64) (*sealer, error) {
	key, err := bootKey(s, boot)
	if err != nil {
		return nil, err
	}
	return &sealer{boot: boot, key: key}, nil
}

func bootKey(s *config.Mesh, boot uint64) (cipher.AEAD, error) {
	raw, err := derive(s, fmt.Sprintf("seal/%016x", boot), 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, fmt.Errorf("make the sealing key: %w", err)
	}
	return cipher.NewGCM(block)
}

// seal is the message that travels instead of plain.
func (s *sealer) seal(plain []byte) []byte {
	s.counter++
	head := appendHeader(make([]byte, 0, sealedHead+len(plain)+s.key.Overhead()), header{kind: kindSealed, boot: s.boot})
	head = binary.BigEndian.AppendUint64(head, s.counter)
	return s.key.Seal(head, nonce(s.counter), plain, head)
}

func nonce(counter uint64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 4, 12), counter)
}

// opener opens what others say. It is the receiver's alone.
type opener struct {
	settings *config.Mesh
	boots    map[uint64]*openBoot
}

type openBoot struct {
	key  cipher.AEAD
	last uint64
}

// open is the message inside of one that was sealed with the secret.
func (o *opener) open(data []byte) ([]byte, error) {
	if len(data) < sealedHead || data[0] != frameVersion || data[1] != kindSealed {
		return nil, errForged
	}
	boot, counter := binary.BigEndian.Uint64(data[2:]), binary.BigEndian.Uint64(data[10:])
	from := o.boots[boot]
	if from == nil {
		key, err := bootKey(o.settings, boot)
		if err != nil {
			return nil, err
		}
		from = &openBoot{key: key}
	}
	plain, err := from.key.Open(nil, nonce(counter), data[sealedHead:], data[:sealedHead])
	switch {
	case err != nil || len(plain) < 10 || binary.BigEndian.Uint64(plain[2:]) != boot:
		return nil, errForged
	case counter <= from.last:
		return nil, errReplayed
	}
	from.last = counter
	o.keep(boot, from)
	return plain, nil
}

// keep remembers boots that proved that they have the secret.
func (o *opener) keep(boot uint64, from *openBoot) {
	if _, known := o.boots[boot]; !known && len(o.boots) >= maxPeers {
		clear(o.boots)
	}
	o.boots[boot] = from
}
