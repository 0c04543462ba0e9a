package config

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"queen.internal/pkg/seal"
)

// Encryption is the keys of payloads at rest, which all processes that read or write payloads must share.
type Encryption struct {
	Key      Secret `envconfig:"QUEEN_ENCRYPTION_KEY"`          // 64 hexadecimal digits; empty: nothing is sealed
	Previous Secret `envconfig:"QUEEN_ENCRYPTION_KEY_PREVIOUS"` // comma list of keys that only open
}

// Validate refuses a key that cannot be one: without it payloads that should be secret could not be stored.
func (e Encryption) Validate() error {
	_, err := e.parse()
	return err
}

// parse never puts a value into its error.
func (e Encryption) parse() (*seal.Keys, error) {
	key := e.trimmed()
	if e.Key != "" {
		if key == "" {
			return nil, errors.New("QUEEN_ENCRYPTION_KEY is nothing but a line break")
		}
		if _, err := seal.NewKeys(key); err != nil {
			return nil, fmt.Errorf("QUEEN_ENCRYPTION_KEY %w", err)
		}
	}
	var previous List
	if err := previous.Set(e.Previous.Reveal()); err != nil {
		return nil, err
	}
	if key == "" && len(previous) == 0 {
		return nil, nil
	}
	keys, err := seal.NewKeys(key, previous...)
	if err != nil {
		return nil, fmt.Errorf("QUEEN_ENCRYPTION_KEY_PREVIOUS: an entry %w", err)
	}
	return keys, nil
}

// trimmed is the key without the line break that reading it from a file leaves behind.
func (e Encryption) trimmed() string { return strings.TrimRight(e.Key.Reveal(), "\r\n") }

// Keys are the keys of settings that Load took, nil when there are none. It says on logger what is in force.
func (e Encryption) Keys(logger *slog.Logger) (*seal.Keys, error) {
	keys, err := e.parse()
	if err != nil || keys == nil {
		return nil, err
	}
	logger = logger.With("target", target)
	if e.trimmed() != e.Key.Reveal() {
		logger.Warn("QUEEN_ENCRYPTION_KEY ends in a line break, which was trimmed")
	}
	if keys.CanSeal() {
		logger.Info("encryption service initialized (AES-256-GCM)", "key_fingerprint", keys.Fingerprint())
	} else {
		logger.Warn("QUEEN_ENCRYPTION_KEY is not set: what was sealed can be read, nothing can be sealed")
	}
	return keys, nil
}

// In adds the keys, masked, to the security line of the effective settings.
func (e Encryption) In(b Block) Block {
	b.Attrs = append(b.Attrs, slog.Any("encryption_key", e.Key), slog.Any("encryption_key_previous", e.Previous))
	return b
}
