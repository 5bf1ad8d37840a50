// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"runtime"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// TestHostileMemory accepts what is odd but right, and bounds what a message of the largest size can make the
// scan allocate: a small multiple of the message.
func TestHostileMemory(t *testing.T) {
	for _, hostile := range hostileInputs() {
		t.Run(hostile.name, func(t *testing.T) {
			if f := Check(hostile.raw, Limits{}); f != nil {
				t.Fatalf("refused for something else: %v", f)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			Parse(hostile.raw, ProfileMCP, Limits{})
			runtime.ReadMemStats(&after)
			if got, most := after.TotalAlloc-before.TotalAlloc, uint64(12*defaults.MaxMessageBytes); got > most {
				t.Errorf("%d bytes allocated, want at most %d", got, most)
			}
		})
	}
}
