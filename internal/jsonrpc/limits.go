// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"math"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// Caps of Limits.
const (
	// capBytes keeps offsets within the 32 bits that the scanner stores.
	capBytes = math.MaxInt32
	// capDepth keeps the recursion of the scanner within a small stack.
	capDepth = 1000
)

// Limits bound what is read. A field that is zero or negative means its
// default. MaxBytes is capped at 2 GiB, MaxDepth at 1,000.
type Limits struct {
	MaxBytes   int // bytes of one message
	MaxDepth   int // nested objects and arrays, the outermost one included
	MaxIDBytes int // bytes of an id as written, without quotes
}

// WithDefaults returns the effective limits: each field has its own value within
// its cap, or its default.
func (l Limits) WithDefaults() Limits {
	l.MaxBytes = bounded(l.MaxBytes, defaults.MaxMessageBytes, capBytes)
	l.MaxDepth = bounded(l.MaxDepth, defaults.MaxJSONDepth, capDepth)
	l.MaxIDBytes = bounded(l.MaxIDBytes, defaults.MaxIDBytes, capBytes)
	return l
}

func bounded(value, fallback, most int) int {
	if value <= 0 {
		return fallback
	}
	return min(value, most)
}
