// SPDX-License-Identifier: Apache-2.0

package mcptest

import (
	"encoding/base64"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/seal"
)

// FixedSealer seals the same in every run: what would be secret and random is
// known. Its clock stands where no other clock of the test is yet, so that what
// it seals has not expired for them either.
func FixedSealer(t testing.TB) *seal.Sealer {
	t.Helper()
	secret := make([]byte, seal.KeyBytes)
	for i := range secret {
		secret[i] = byte(i)
	}
	keys, err := seal.ParseKeys([]byte(base64.StdEncoding.EncodeToString(secret)))
	if err != nil {
		t.Fatal(err)
	}
	return seal.New(seal.Options{
		Keys: keys, Rand: rand.NewChaCha8([32]byte{}),
		Now: func() time.Time { return time.Date(2100, time.January, 2, 3, 4, 5, 0, time.UTC) },
	})
}
