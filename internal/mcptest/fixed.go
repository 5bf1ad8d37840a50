// SPDX-License-Identifier: Apache-2.0

package mcptest

import (
	"encoding/base64"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// Fixed has a sidecar seal the same in every run, and name sessions the same.
func Fixed(t testing.TB) server.Adjust {
	t.Helper()
	sealed := fixedSeal(t)
	return server.Adjust{
		Seal: func(o *keys.SealerOptions) { *o = sealed },
		Sessions: func(o *session.Options) {
			o.Rand, o.Sealer = rand.NewChaCha8([32]byte{}), FixedSealer(t)
		},
	}
}

// FixedSealer is the sealer of [Fixed], for tests that make their own bridge.
func FixedSealer(t testing.TB) *keys.Sealer {
	t.Helper()
	return keys.NewSealer(fixedSeal(t))
}

// fixedSeal has nothing that is secret or random. Its clock is where no other clock of
// a test is yet, so that what it seals has not expired for them either.
func fixedSeal(t testing.TB) keys.SealerOptions {
	t.Helper()
	secret := make([]byte, keys.KeyBytes)
	for i := range secret {
		secret[i] = byte(i)
	}
	ring, err := keys.ParseKeys([]byte(base64.StdEncoding.EncodeToString(secret)))
	if err != nil {
		t.Fatal(err)
	}
	return keys.SealerOptions{
		Keys: ring, Rand: rand.NewChaCha8([32]byte{}),
		Now: func() time.Time { return time.Date(2100, time.January, 2, 3, 4, 5, 0, time.UTC) },
	}
}
