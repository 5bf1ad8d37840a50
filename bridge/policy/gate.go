// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/errmap"
)

// Trust says whether callers may run tools that are marked destructive.
type Trust uint8

// The trust states. Untrusted is the zero value: a forgotten setting blocks.
const (
	Untrusted Trust = iota
	Trusted
)

// ParseTrust reads "untrusted" or "trusted".
func ParseTrust(s string) (Trust, error) {
	switch s {
	case "untrusted":
		return Untrusted, nil
	case "trusted":
		return Trusted, nil
	}
	return Untrusted, fmt.Errorf("trust %q: want untrusted or trusted", s)
}

// String returns the state's name.
func (t Trust) String() string {
	if t == Trusted {
		return "trusted"
	}
	return "untrusted"
}

// Gate holds back destructive tools while callers are not trusted. The zero
// value is an untrusting gate.
type Gate struct {
	trust atomic.Uint32
}

// NewGate returns a gate in the given state.
func NewGate(t Trust) *Gate {
	g := &Gate{}
	g.trust.Store(uint32(t))
	return g
}

// Trust returns the present state.
func (g *Gate) Trust() Trust { return Trust(g.trust.Load()) }

// Check returns nil where tool may run, else DESTRUCTIVE_BLOCKED. Only tools
// that are marked destructive are gated: a tool that says nothing runs.
func (g *Gate) Check(tool *catalog.Tool) *errmap.Error {
	if !tool.Metadata.Destructive || g.Trust() == Trusted {
		return nil
	}
	return errmap.New(errmap.DestructiveBlocked, errmap.Tool(tool.Name),
		errmap.Messagef("Destructive tool blocked: %s runs only for callers that are trusted; "+
			"an operator can start the sidecar with --trust trusted", tool.Name))
}
