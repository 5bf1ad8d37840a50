// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"

	"github.com/outrigger-mcp/outrigger/internal/keys"
)

// versionSealed begins a value of the first format: a sealed payload. A release reads
// its own format and those of the release before.
const versionSealed = 1

// codecOverhead is how much longer a stored value is than what it holds.
const codecOverhead = 1 + keys.Overhead

// encode seals a value for its key in a bucket or stream of a kind.
func encode(s *keys.Sealer, kind, key string, value []byte) ([]byte, error) {
	stored := make([]byte, 1, len(value)+codecOverhead)
	stored[0] = versionSealed
	stored, err := s.SealRaw(binding(kind, key), stored, value)
	var large *keys.TooLargeError
	if errors.As(err, &large) {
		return nil, fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return stored, err
}

// decode opens what encode made, here or at another replica.
func decode(s *keys.Sealer, kind, key string, stored []byte) ([]byte, error) {
	switch {
	case len(stored) == 0:
		return nil, fmt.Errorf("%w: it is empty", ErrUnreadable)
	case stored[0] != versionSealed:
		return nil, fmt.Errorf("%w: its format %d is unknown to this release", ErrUnreadable, stored[0])
	}
	value, err := s.OpenRaw(binding(kind, key), stored[1:])
	if err != nil {
		return nil, fmt.Errorf("%w: %w; do all replicas have the same --state-key?", ErrUnreadable, err)
	}
	return value, nil
}

// binding ties a value to where it is stored. The deployment's name is not in it, so
// that a backup can be restored under another name.
func binding(kind, key string) keys.Binding {
	return keys.Binding{Purpose: "state/" + kind, Digest: keys.Digest([]byte(key)), TTL: keys.NoExpiry}
}
