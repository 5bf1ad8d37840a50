// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"testing"
)

// TestHostileMemory bounds what a message of the largest size can make the
// scan allocate: a small multiple of the message.
func TestHostileMemory(t *testing.T) {
	for _, hostile := range hostileInputs() {
		t.Run(hostile.name, func(t *testing.T) {
			result := testing.Benchmark(func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					Parse(hostile.raw, ProfileMCP, Limits{})
				}
			})
			if most := int64(12 * DefaultMaxBytes); result.AllocedBytesPerOp() > most {
				t.Errorf("%d bytes allocated, want at most %d", result.AllocedBytesPerOp(), most)
			}
		})
	}
}
