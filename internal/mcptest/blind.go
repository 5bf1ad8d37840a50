// SPDX-License-Identifier: Apache-2.0

package mcptest

import (
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/redact"
)

// Rules decide about calls and what their callers see.
type Rules = bridge.Rules

// Blind are rules that show everything where one place asks for a view.
type Blind struct {
	Rules
	// At ends the name of the function that asks, or that is on the way to it. Empty is none, and * is every place.
	At string
	// Records is set where records keep everything too.
	Records bool

	uses atomic.Int64
}

// View implements [Rules].
func (b *Blind) View(who *identity.Identity, tool *catalog.Tool) *policy.View {
	if b.At == "" {
		return b.Rules.View(who, tool)
	}
	if b.At == "*" {
		b.uses.Add(1)
		return nil
	}
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, b.At) {
			b.uses.Add(1)
			return nil
		}
		if !more {
			return b.Rules.View(who, tool)
		}
	}
}

// Unrecorded implements [Rules].
func (b *Blind) Unrecorded() *redact.Others {
	if b.Records {
		b.uses.Add(1)
		return nil
	}
	return b.Rules.Unrecorded()
}

// Uses is how often the place has asked.
func (b *Blind) Uses() int { return int(b.uses.Load()) }
